//! Figures as pictures, by a renderer and a font that do not depend on the system.

use super::chart::Figure;
use resvg::{tiny_skia, usvg};
use std::io;
use std::sync::Arc;

/// Renders figures, with fonts that are read once.
#[derive(Debug)]
pub struct Painter {
    options: usvg::Options<'static>,
}

impl Default for Painter {
    /// Reads the fonts, which are part of the program: pictures are the same on every system.
    fn default() -> Self {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_font_data(notosans::REGULAR_TTF.to_vec());
        fonts.load_font_data(notosans::BOLD_TTF.to_vec());
        let options = usvg::Options {
            font_family: "Noto Sans".to_owned(),
            fontdb: Arc::new(fonts),
            ..usvg::Options::default()
        };
        Self { options }
    }
}

impl Painter {
    /// The figure as a PNG file, `width` pixels wide (16,000 at most); some tens of milliseconds.
    pub fn png(&self, figure: &Figure, width: u32) -> io::Result<Vec<u8>> {
        let wrong = |what: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("figure {}: {what}", figure.id))
        };
        let tree = usvg::Tree::from_str(&figure.svg, &self.options)
            .map_err(|error| wrong(error.to_string()))?;
        let width = width.clamp(1, 16_000);
        let scale = width as f32 / tree.size().width();
        let height = (tree.size().height() * scale).ceil() as u32;
        let pixels = tiny_skia::Pixmap::new(width, height.max(1));
        let mut pixels = pixels.ok_or_else(|| wrong(format!("{width} x {height} pixels")))?;
        let zoom = tiny_skia::Transform::from_scale(scale, scale);
        resvg::render(&tree, zoom, &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| wrong(error.to_string()))
    }
}
