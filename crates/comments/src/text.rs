//! Text that resembles comments: word bigrams, repeated words, rare and invented words.

use crate::random::Random;
use crate::tables::{Tables, Word};
use crate::{escape, params};

const SYLLABLES: [&str; 30] = [
    "ka", "to", "mi", "ra", "sen", "dor", "lu", "ve", "ni", "sha", "gre", "bon", "tim", "pol",
    "zu", "he", "ar", "cy", "dex", "fo", "jin", "wol", "my", "qua", "ster", "th", "an", "er", "in",
    "on",
];

/// Writes texts. Keeps the words of the last text, so that they can be repeated.
pub(crate) struct TextWriter<'a> {
    tables: &'a Tables,
    history: Vec<u16>,
}

/// Of 65,536 words, those below this number repeat a run of the same text.
const REUSED: u16 = (params::P_REUSE * 65_536.0) as u16;
/// Of 65,536 words, those from `REUSED` up to this number are not in the statistics.
const UNKNOWN: u16 = ((params::P_REUSE + params::P_UNKNOWN_WORD) * 65_536.0) as u16;

impl<'a> TextWriter<'a> {
    pub(crate) fn new(tables: &'a Tables) -> Self {
        Self { tables, history: Vec::with_capacity(256) }
    }

    /// Appends `chars` characters of text, escaped for JSON, that does not start with white space.
    pub(crate) fn write(&mut self, random: &mut Random, chars: usize, out: &mut Vec<u8>) {
        let mut rest = Rest { tables: self.tables, text: out.len(), chars };
        let mut previous = self.tables.start(random.bits32());
        self.history.clear();
        self.history.push(previous);
        rest.put(self.tables.word(previous), out);
        while rest.chars > 0 {
            let bits = random.bits();
            let (choice, chance, bits) = (bits as u16, (bits >> 16) as u16, (bits >> 32) as u32);
            if choice >= UNKNOWN {
                previous = self.tables.next(previous, chance, bits);
                self.history.push(previous);
                rest.put(self.tables.word(previous), out);
            } else if choice < REUSED && self.history.len() > params::REUSE_AFTER_WORDS {
                previous = self.say_again(random, &mut rest, out);
            } else {
                rest.put_unknown(random, bits, out);
            }
        }
    }

    /// Repeats a short run of the text's own words and returns the last of them.
    fn say_again(&mut self, random: &mut Random, rest: &mut Rest<'_>, out: &mut Vec<u8>) -> u16 {
        let words = random.between(2, params::REUSE_WORDS_MAX) as usize;
        let from = random.below((self.history.len() - words) as u64) as usize;
        for k in from..from + words {
            rest.put(self.tables.word(self.history[k]), out);
        }
        self.history.extend_from_within(from..from + words);
        self.history[from + words - 1]
    }
}

/// The rest of a text that is being written.
struct Rest<'a> {
    tables: &'a Tables,
    /// The start of the text in the output.
    text: usize,
    /// Characters that are left to write.
    chars: usize,
}

impl Rest<'_> {
    /// Appends a word, cut to the characters that are left.
    #[inline]
    fn put(&mut self, word: Word, out: &mut Vec<u8>) {
        let chars = usize::from(word.chars);
        if chars <= self.chars && out.len() > self.text {
            self.tables.push(word, out);
            self.chars -= chars;
        } else {
            self.put_cut(self.tables.bytes(word), out);
        }
    }

    /// Appends the first or the last word of a text: without white space before it, cut to the
    /// characters that are left.
    fn put_cut(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        if out.len() == self.text {
            bytes = &bytes[escape::leading_space(bytes).0..];
        }
        let (len, chars) = if bytes.contains(&b'\\') {
            let len = escape::prefix_len(bytes, self.chars);
            (len, escape::count(&bytes[..len]))
        } else {
            let len = bytes.len().min(self.chars);
            (len, len)
        };
        out.extend_from_slice(&bytes[..len]);
        self.chars -= chars;
    }

    /// Appends a word that is not in the statistics.
    fn put_unknown(&mut self, random: &mut Random, bits: u32, out: &mut Vec<u8>) {
        self.put_cut(b" ", out);
        if random.chance(params::P_TAIL_WORD) {
            self.put(self.tables.tail_word(bits), out);
        } else {
            let start = out.len();
            let end = start + push_invented(random, out).min(self.chars);
            out.truncate(end);
            self.chars -= end - start;
        }
    }
}

/// Appends an invented word in ASCII, sometimes with a capital, and returns its length.
pub(crate) fn push_invented(random: &mut Random, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    for _ in 0..random.between(2, 4) {
        out.extend_from_slice(random.of(&SYLLABLES).as_bytes());
    }
    if random.chance(0.25) {
        out[start].make_ascii_uppercase();
    }
    out.len() - start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::tables;

    #[test]
    fn a_text_has_the_characters_asked_for_and_no_space_in_front() {
        let mut writer = TextWriter::new(tables());
        let mut random = Random::new(3);
        for chars in 1..400 {
            let mut out = b"before".to_vec();
            writer.write(&mut random, chars, &mut out);
            let text = &out[6..];
            assert_eq!(escape::count(text), chars, "{}", String::from_utf8_lossy(text));
            assert_eq!(escape::leading_space(text), (0, 0));
        }
    }
}
