//! The page: the output of the sections, written as HTML.

use super::chart::{Figure, escape};
use super::model::Table;

const STYLE: &str = "\
body{margin:0 auto;max-width:1000px;padding:24px 20px 80px;color:#1f2933;background:#fff;\
font:15px/1.5 system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}\
h1{font-size:26px;margin:0 0 12px}h2{font-size:20px;margin:48px 0 8px;padding-top:14px;\
border-top:1px solid #cbd2d9}dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;\
margin:0 0 16px}dt{color:#5f6b7a}dd{margin:0}nav{font-size:14px}nav a{margin-right:14px;\
white-space:nowrap}a{color:#0b5c94;text-decoration:none}a:hover{text-decoration:underline}\
figure{margin:20px 0 28px}svg{width:100%;height:auto;display:block}\
.table{overflow-x:auto;margin:12px 0 24px}table{border-collapse:collapse;font-size:13.5px;\
font-variant-numeric:tabular-nums}th,td{padding:3px 14px 3px 0;text-align:left;\
white-space:nowrap;border-bottom:1px solid #e4e7eb}th{color:#5f6b7a;font-weight:600}\
.n{text-align:right}.missing{color:#5f6b7a}summary{cursor:pointer;padding:4px 0}\
@media print{details{display:block}h2{break-after:avoid}figure{break-inside:avoid}}";

/// The tables, figures and texts of a section.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) html: String,
    pub(super) figures: Vec<Figure>,
}

impl Page {
    pub(super) fn figure(&mut self, figure: Figure) {
        let (id, svg) = (escape(&figure.id), &figure.svg);
        self.html += &format!("<figure id=\"figure-{id}\">\n{svg}</figure>\n");
        self.figures.push(figure);
    }

    pub(super) fn note(&mut self, text: &str) {
        self.html += &format!("<p>{}</p>\n", escape(text));
    }

    /// A heading, and what is shown when it is opened.
    pub(super) fn folded(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        let title = escape(title);
        self.html += &format!("<details>\n<summary>{title}</summary>\n");
        draw(self);
        self.html.push_str("</details>\n");
    }

    pub(super) fn table(&mut self, table: &Table) {
        write_table(&mut self.html, table);
    }
}

/// Returns the page that consists of the pages of all sections, each under its id and title. For an
/// empty one a line names the command that measures it.
pub(super) fn html(
    header: &[(&'static str, String)],
    sections: &[([&'static str; 3], Page)],
) -> String {
    let mut out = String::new();
    out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n");
    out.push_str("<title>flagstone: benchmarks</title>\n<style>");
    out.push_str(STYLE);
    out.push_str("</style>\n</head>\n<body>\n<h1>Benchmarks</h1>\n<dl>\n");
    for (name, text) in header {
        out += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(text));
    }
    out.push_str("</dl>\n<nav>\n");
    for ([id, title, _], _) in sections.iter().filter(|(_, page)| !page.html.is_empty()) {
        out += &format!("<a href=\"#{id}\">{}</a>\n", escape(title));
    }
    out.push_str("</nav>\n");
    for ([id, title, missing], page) in sections {
        out += &format!("<section id=\"{id}\">\n<h2>{}</h2>\n", escape(title));
        if page.html.is_empty() {
            let missing = escape(missing);
            out += &format!("<p class=\"missing\">Not measured: {missing}</p>\n");
        }
        out.push_str(&page.html);
        out.push_str("</section>\n");
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn write_table(out: &mut String, table: &Table) {
    let class = |at: usize| match table.columns.get(at) {
        Some((_, true)) => " class=\"n\"",
        _ => "",
    };
    out.push_str("<div class=\"table\"><table>\n<thead><tr>");
    for (at, (title, _)) in table.columns.iter().enumerate() {
        *out += &format!("<th{}>{}</th>", class(at), escape(title));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            *out += &format!("<td{}>{}</td>", class(at), escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}
