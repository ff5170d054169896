//! Writing the facts of a comment as one JSON object, its fields in the order of their names.

use crate::author::{self, Author, Flair, Richness};
use crate::body::{self, Body};
use crate::facts::{Facts, Parent};
use crate::tables::{Subreddit, Tables};
use crate::text::TextWriter;
use crate::{escape, key, params};

const AWARDINGS: &str = concat!(
    r#"{"award_type":"global","coin_price":100,"coin_reward":0,"count":1,"#,
    r#""days_of_drip_extension":0,"days_of_premium":0,"#,
    r#""description":"Shows the Silver Award... and that's it.","end_date":null,"#,
    r#""icon_height":512,"#,
    r#""icon_url":"https://www.redditstatic.com/gold/awards/icon/silver_512.png","#,
    r#""icon_width":512,"id":"gid_1","is_enabled":true,"name":"Silver","resized_icons":["#,
    r#"{"height":16,"url":"https://www.redditstatic.com/gold/awards/icon/silver_16.png","#,
    r#""width":16},"#,
    r#"{"height":32,"url":"https://www.redditstatic.com/gold/awards/icon/silver_32.png","#,
    r#""width":32},"#,
    r#"{"height":48,"url":"https://www.redditstatic.com/gold/awards/icon/silver_48.png","#,
    r#""width":48},"#,
    r#"{"height":64,"url":"https://www.redditstatic.com/gold/awards/icon/silver_64.png","#,
    r#""width":64},"#,
    r#"{"height":128,"url":"https://www.redditstatic.com/gold/awards/icon/silver_128.png","#,
    r#""width":128}],"start_date":null,"subreddit_coin_reward":0,"subreddit_id":null}"#,
);

/// Writes comments one after another into `out`.
pub(crate) struct DocumentWriter<'a> {
    tables: &'a Tables,
    text: TextWriter<'a>,
    scratch: Vec<u8>,
    out: &'a mut Vec<u8>,
}

impl<'a> DocumentWriter<'a> {
    pub(crate) fn new(tables: &'a Tables, out: &'a mut Vec<u8>) -> Self {
        Self { tables, text: TextWriter::new(tables), scratch: Vec::with_capacity(256), out }
    }

    /// Appends the comment, without a line end.
    pub(crate) fn write(&mut self, mut facts: Facts) {
        let subreddit = self.tables.subreddit(facts.subreddit);
        self.raw(r#"{"all_awardings":["#);
        self.raw(if facts.awarded { AWARDINGS } else { "" });
        self.raw(r#"],"associated_award":null,"#);
        self.write_author(&facts, subreddit);
        self.write_body(&mut facts, subreddit);
        self.write_reception(&facts);
        self.write_place(&facts, subreddit);
    }

    /// Appends a newline after a comment.
    pub(crate) fn end_line(&mut self) {
        self.out.push(b'\n');
    }

    /// Appends the fields from `author` to `author_premium`.
    fn write_author(&mut self, facts: &Facts, subreddit: &Subreddit) {
        self.raw(r#""author":""#);
        facts.author.push_name(self.tables, self.out);
        self.raw(if facts.cakeday { r#"","author_cakeday":true"# } else { r#"""# });
        self.raw(r#","author_created_utc":"#);
        match facts.author.rank() {
            Some(rank) if facts.created < params::LATE_START => {
                self.number(author::created(rank));
            }
            _ => self.raw("null"),
        }
        match &facts.flair {
            Some(flair) => self.write_flair(flair, subreddit),
            None => {
                self.raw(r#","author_flair_background_color":null,"author_flair_css_class":null"#);
                if facts.author != Author::Deleted {
                    self.raw(r#","author_flair_richtext":[]"#);
                }
                self.raw(r#","author_flair_template_id":null,"author_flair_text":null"#);
            }
        }
        self.raw(match facts.flair_dark {
            Some(true) => r#","author_flair_text_color":"dark""#,
            Some(false) => r#","author_flair_text_color":"light""#,
            None => r#","author_flair_text_color":null"#,
        });
        let Some(rank) = facts.author.rank() else {
            self.raw(r#","author_fullname":null"#);
            return;
        };
        let rich = facts.flair.as_ref().is_some_and(|f| f.richness != Richness::Plain);
        self.raw(r#","author_flair_type":""#);
        self.raw(if rich { "richtext" } else { "text" });
        self.raw(r#"","author_fullname":"t2_"#);
        escape::push_base36(author::fullname(rank), self.out);
        self.raw(r#"","author_patreon_flair":false"#);
        self.raw(match facts.premium {
            Some(true) => r#","author_premium":true"#,
            Some(false) => r#","author_premium":false"#,
            None => "",
        });
    }

    /// Appends the fields from `author_flair_background_color` to `author_flair_text`.
    fn write_flair(&mut self, flair: &Flair, subreddit: &Subreddit) {
        let mut words = flair.words.clone();
        self.raw(r#","author_flair_background_color":"#);
        match flair.background {
            Some(color) => self.quoted(color),
            None => self.raw("null"),
        }
        self.raw(r#","author_flair_css_class":"#);
        match flair.css_chars {
            Some(chars) => {
                self.scratch.clear();
                self.text.write(&mut words, chars, &mut self.scratch);
                self.raw("\"");
                push_class(&self.scratch, self.out);
                self.raw("\"");
            }
            None => self.raw("null"),
        }
        let mut text = Vec::with_capacity(64);
        self.scratch.clear();
        self.text.write(&mut words, flair.text_chars, &mut self.scratch);
        body::push_one_line(&self.scratch, &mut text);
        let emoji = emoji_name(&text);
        self.raw(r#","author_flair_richtext":["#);
        match flair.richness {
            Richness::Plain => {}
            Richness::Rich => self.join(&[br#"{"e":"text","t":""#, &text, br#""}"#]),
            Richness::Emoji(number) => {
                self.join(&[br#"{"a":":"#, &emoji, br#":","e":"emoji","u":""#]);
                self.raw("https://emoji.redditmedia.com/");
                escape::push_hex(number, 13, self.out);
                self.join(&[b"_", subreddit.fullname.as_bytes(), b"/", &emoji]);
                self.join(&[br#""},{"e":"text","t":" "#, &text, br#""}"#]);
            }
        }
        self.raw(r#"],"author_flair_template_id":"#);
        match flair.template {
            Some((high, low)) => {
                self.raw("\"");
                escape::push_hex(high, 8, self.out);
                self.raw("-");
                escape::push_hex(high >> 32, 4, self.out);
                self.raw("-11e9-");
                escape::push_hex(high >> 48, 4, self.out);
                self.raw("-0e");
                escape::push_hex(low, 10, self.out);
                self.raw("\"");
            }
            None => self.raw("null"),
        }
        self.raw(r#","author_flair_text":""#);
        if let Richness::Emoji(_) = flair.richness {
            self.join(&[b":", &emoji, b": "]);
        }
        self.join(&[&text, b"\""]);
    }

    /// Appends the fields `awarders` and `body`.
    fn write_body(&mut self, facts: &mut Facts, subreddit: &Subreddit) {
        self.raw(r#","awarders":[],"body":""#);
        match facts.body {
            Body::Removed => self.raw("[removed]"),
            Body::Deleted => self.raw("[deleted]"),
            Body::Notice => {
                body::push_notice(facts.subreddit, &subreddit.name, &mut self.text, self.out);
            }
            Body::Written => {
                let random = &mut facts.words;
                body::push_written(random, &mut self.text, &mut self.scratch, self.out);
            }
        }
    }

    /// Appends the fields from `can_gild` to `gildings`.
    fn write_reception(&mut self, facts: &Facts) {
        self.flag(r#"","can_gild":"#, facts.can_gild);
        self.flag(r#","can_mod_post":false,"collapsed":"#, facts.collapsed);
        if facts.created >= params::CROWD_START {
            self.raw(r#","collapsed_because_crowd_control":null"#);
        }
        self.raw(if facts.score <= params::COLLAPSED_AT {
            r#","collapsed_reason":"comment score below threshold","controversiality":"#
        } else {
            r#","collapsed_reason":null,"controversiality":"#
        });
        self.raw(if facts.controversial { "1" } else { "0" });
        self.raw(r#","created_utc":"#);
        self.number(facts.created);
        self.raw(if facts.distinguished {
            r#","distinguished":"moderator","edited":"#
        } else {
            r#","distinguished":null,"edited":"#
        });
        match facts.edited {
            Some(time) => self.number(time),
            None => self.raw("false"),
        }
        self.raw(if facts.awarded {
            r#","gilded":0,"gildings":{"gid_1":1}"#
        } else {
            r#","gilded":0,"gildings":{}"#
        });
    }

    /// Appends the fields from `id` to `total_awards_received`, and the end.
    fn write_place(&mut self, facts: &Facts, subreddit: &Subreddit) {
        let (id, link) = (key::number(facts.i), facts.thread.link());
        let name = subreddit.name.as_bytes();
        self.raw(r#","id":""#);
        escape::push_base36(id, self.out);
        self.flag(r#"","is_submitter":"#, facts.submitter);
        self.raw(r#","link_id":"t3_"#);
        escape::push_base36(link, self.out);
        self.flag(r#"","locked":"#, facts.locked);
        self.flag(r#","no_follow":"#, facts.no_follow);
        let (kind, parent) = match facts.parent {
            Parent::Post => (r#","parent_id":"t3_"#, link),
            Parent::Comment(i) => (r#","parent_id":"t1_"#, key::number(i)),
        };
        self.raw(kind);
        escape::push_base36(parent, self.out);
        self.join(&[br#"","permalink":"/r/"#, name, b"/comments/"]);
        escape::push_base36(link, self.out);
        self.raw("/");
        facts.thread.push_slug(&mut self.text, &mut self.scratch, self.out);
        self.raw("/");
        escape::push_base36(id, self.out);
        self.raw(r#"/","quarantined":false,"removal_reason":null,"retrieved_on":"#);
        self.number(facts.retrieved);
        self.raw(r#","score":"#);
        escape::push_decimal(facts.score, self.out);
        self.flag(r#","send_replies":"#, facts.send_replies);
        self.flag(r#","steward_reports":[],"stickied":"#, facts.stickied);
        self.join(&[br#","subreddit":""#, name]);
        self.join(&[br#"","subreddit_id":""#, subreddit.fullname.as_bytes()]);
        self.join(&[br#"","subreddit_name_prefixed":"r/"#, name]);
        self.raw(if facts.restricted {
            r#"","subreddit_type":"restricted","total_awards_received":"#
        } else {
            r#"","subreddit_type":"public","total_awards_received":"#
        });
        self.raw(if facts.awarded { "1}" } else { "0}" });
    }

    #[inline]
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    #[inline]
    fn flag(&mut self, before: &str, flag: bool) {
        self.raw(before);
        self.raw(if flag { "true" } else { "false" });
    }

    fn number(&mut self, number: u64) {
        escape::push_decimal(number as i64, self.out);
    }

    fn quoted(&mut self, text: &str) {
        self.join(&[b"\"", text.as_bytes(), b"\""]);
    }

    fn join(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.out.extend_from_slice(part);
        }
    }
}

/// Appends a class for style sheets: small letters, hyphens for spaces, no line ends.
fn push_class(escaped: &[u8], out: &mut Vec<u8>) {
    for c in escape::chars(escaped) {
        match c {
            ' ' => out.push(b'-'),
            '\n' => {}
            _ => c.to_lowercase().for_each(|c| escape::push(c, out)),
        }
    }
}

/// The name of the emoji before a flair: the first letters of the flair's text.
fn emoji_name(escaped: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(12);
    for c in escape::chars(escaped).take(6).filter(|&c| !c.is_whitespace()) {
        escape::push(c, &mut name);
    }
    if name.is_empty() {
        name.push(b'x');
    }
    name
}
