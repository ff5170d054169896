//! What a request names: the segments of its path, and the parameters of its query.

use super::refusal::BadRequest;

/// A path and its parameters, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestTarget {
    /// The parts between slashes. A `%2F` is in a part, and does not end it.
    pub(super) segments: Vec<String>,
    pub(super) parameters: Vec<(String, String)>,
}

impl RequestTarget {
    pub(super) fn parse(text: &str) -> Result<Self, BadRequest> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let Some(path) = path.strip_prefix('/') else {
            let text = format!("expected a target that begins with /, found {text:?}");
            return Err(BadRequest::malformed(text));
        };
        if text.contains('#') {
            return Err(BadRequest::malformed("expected a target without #"));
        }
        let segments = path.split('/').map(|segment| decode(segment, Part::Path));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name, Part::Query)?, decode(value, Part::Query)?))
        });
        Ok(Self {
            segments: segments.collect::<Result<_, _>>()?,
            parameters: parameters.collect::<Result<_, _>>()?,
        })
    }

    /// Returns a parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        parameters.find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// The part of a target that a text is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Query,
}

/// Decodes `%20` and, in queries, `+`.
fn decode(text: &str, part: Part) -> Result<String, BadRequest> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let digit =
                    |at: usize| rest.get(at).and_then(|digit| char::from(*digit).to_digit(16));
                let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                    let text = format!("expected two hexadecimal digits after %, in {text:?}");
                    return Err(BadRequest::malformed(text));
                };
                bytes.push((high << 4 | low) as u8);
                rest = &rest[2..];
            }
            b'+' if part == Part::Query => bytes.push(b' '),
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_not_utf8| {
        BadRequest::malformed(format!("expected UTF-8 behind the % of {text:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_decoded_after_it_is_split() {
        let target = RequestTarget::parse("/v1/a%2Fb/%C3%A9+?x=1+2%2b&y&=z").unwrap();
        assert_eq!(target.segments, ["v1", "a/b", "é+"]);
        let pairs = [("x", "1 2+"), ("y", ""), ("", "z")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(target.parameters, pairs);
        assert_eq!(RequestTarget::parse("/").unwrap().segments, [""]);
        for bad in
            ["", "*", "v1", "http://x/", "/%", "/%4", "/%zz", "/%+1", "/a#b", "/%ff", "/?%C3"]
        {
            assert_eq!(RequestTarget::parse(bad).unwrap_err().status, 400, "{bad}");
        }
    }
}
