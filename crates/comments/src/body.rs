//! The body of a comment: its text, with quotes, addresses, emoji and other languages.

use crate::random::Random;
use crate::text::TextWriter;
use crate::{escape, params};

/// The content of the field `body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Removed by a moderator.
    Removed,
    /// Deleted by its author.
    Deleted,
    /// The notice of the automatic moderator in each thread of a subreddit.
    Notice,
    /// Written by a person: the number of characters, and the stream they are drawn from.
    Written,
}

/// Appends a body written by a person, escaped for JSON. `scratch` is overwritten.
pub(crate) fn push_written(
    random: &mut Random,
    text: &mut TextWriter<'_>,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let quotes = random.chance(params::P_QUOTE);
    let length = draw_length(random);
    let chars = (length as usize).max(1);
    let start = out.len();
    text.write(random, chars, out);
    if quotes && length > params::QUOTE_AFTER_CHARS {
        quote((length * params::QUOTE_SHARE) as usize, start, scratch, out);
    }
    if random.chance(params::P_URL) {
        push_url(random, length, start, scratch, out);
    }
    if random.chance(params::P_NONASCII) {
        let choices = [
            "\\u2019s",
            "\\u2026",
            "\\ud83d\\ude02",
            "\\ud83d\\ude02\\ud83d\\ude02",
            "\\u00e9",
            "\\u2014",
        ];
        out.extend_from_slice(random.of(&choices).as_bytes());
    }
    if out.get(start) != Some(&b'[') {
        translate(random, start, scratch, out);
    }
}

/// The number of characters of a body, with a fraction: lognormal, with a second lognormal for its
/// tail.
fn draw_length(random: &mut Random) -> f64 {
    let length = if random.chance(params::P_BODY_TAIL) {
        random.lognormal(params::BODY_TAIL_MU, params::BODY_TAIL_SIGMA)
    } else {
        random.lognormal(params::BODY_MU, params::BODY_SIGMA)
    };
    length.clamp(1.0, params::BODY_CHARS_MAX)
}

/// Turns the first `chars` characters of the body that starts at `start` into a quoted line.
fn quote(chars: usize, start: usize, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    scratch.clear();
    scratch.extend_from_slice(&out[start..]);
    out.truncate(start);
    out.extend_from_slice(b"&gt; ");
    let end = escape::prefix_len(scratch, chars);
    push_one_line(&scratch[..end], out);
    out.extend_from_slice(b"\\n\\n");
    out.extend_from_slice(&scratch[end..]);
}

/// Appends `escaped` with its line ends as spaces.
pub(crate) fn push_one_line(escaped: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some((c, len)) = escape::first(&escaped[at..]) {
        match c {
            '\n' => out.push(b' '),
            _ => out.extend_from_slice(&escaped[at..at + len]),
        }
        at += len;
    }
}

/// Cuts the body that starts at `start` somewhere and ends it with an address; a short body
/// becomes the address alone.
fn push_url(
    random: &mut Random,
    length: f64,
    start: usize,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    scratch.clear();
    scratch.extend_from_slice(b"https://");
    scratch.extend_from_slice(random.of(&params::URL_HOSTS).as_bytes());
    scratch.push(b'/');
    let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for _ in 0..random.of(&[7, 11, 13]) {
        scratch.push(random.of(letters));
    }
    let keep = random.between(0, escape::count(&out[start..]) as u64) as usize;
    if length <= params::URL_AFTER_CHARS {
        out.truncate(start);
        out.extend_from_slice(scratch);
        return;
    }
    out.truncate(start + escape::prefix_len(&out[start..], keep));
    out.push(b' ');
    out.extend_from_slice(scratch);
    let most = scratch.len().max(length as usize);
    out.truncate(start + escape::prefix_len(&out[start..], most));
}

/// Turns some bodies into another language: accents, another script, or thousands of ideographs.
fn translate(random: &mut Random, start: usize, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    let language = random.unit();
    if language < params::P_MONSTER {
        out.truncate(start);
        for _ in 0..params::MONSTER_CHARS {
            push_of_script(random, (0x4E00, 0x9FA5), out);
        }
    } else if language < params::P_NONLATIN {
        let scripts =
            [(0x430, 0x450), (0x3042, 0x3090), (0x4E00, 0x5800), (0x627, 0x645), (0xAC00, 0xB800)];
        let script = random.of(&scripts);
        let chars = escape::count(&out[start..]);
        out.truncate(start);
        for _ in 0..chars {
            if random.chance(params::P_NONLATIN_SPACE) {
                out.push(b' ');
            } else {
                push_of_script(random, script, out);
            }
        }
    } else if language < params::P_NONLATIN + params::P_LATIN {
        scratch.clear();
        scratch.extend_from_slice(&out[start..]);
        out.truncate(start);
        push_accented(random, scratch, out);
    }
}

/// Appends a character from `script`, given as its first code point and the one after its last.
fn push_of_script(random: &mut Random, script: (u64, u64), out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\u");
    escape::push_hex(random.between(script.0, script.1 - 1), 4, out);
}

/// Appends `escaped` with accents on some of its letters.
fn push_accented(random: &mut Random, escaped: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some((c, len)) = escape::first(&escaped[at..]) {
        let accented = match c {
            'a' => 'á',
            'e' => 'é',
            'i' => 'í',
            'o' => 'ó',
            'u' => 'ü',
            'n' => 'ñ',
            'c' => 'ç',
            's' => 'š',
            'z' => 'ž',
            _ => c,
        };
        if c != accented && random.chance(params::P_LATIN_ACCENT) {
            escape::push(accented, out);
        } else {
            out.extend_from_slice(&escaped[at..at + len]);
        }
        at += len;
    }
}

/// Appends the notice of a subreddit, escaped for JSON.
pub(crate) fn push_notice(
    subreddit: u16,
    name: &str,
    text: &mut TextWriter<'_>,
    out: &mut Vec<u8>,
) {
    let mut random = Random::new(crate::random::mix(u64::from(subreddit), 4242));
    text.write(&mut random, params::AUTOMODERATOR_CHARS, out);
    out.extend_from_slice(
        b"\\n\\n*This notice was written by a machine. Ask [the people who look after r/",
    );
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"](/message/compose/?to=/r/");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b") if something is unclear, they read every message.*");
}
