//! Draws the report of a folder of result files.
//!
//! ```text
//! cargo run -p flagstone-bench --features png --example report -- DIR OUT.html [PNG_DIR]
//! ```

use flagstone_bench::record::read_dir;
use flagstone_bench::report::Report;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (dir, out, pictures) = match &arguments[..] {
        [dir, out] => (dir, out, None),
        [dir, out, pictures] => (dir, out, Some(pictures)),
        _ => return Err("usage: report DIR OUT.html [PNG_DIR]".into()),
    };
    let report = Report::new(&read_dir(Path::new(dir))?, None);
    std::fs::write(out, report.html())?;
    let Some(pictures) = pictures else { return Ok(()) };
    #[cfg(feature = "png")]
    {
        let painter = flagstone_bench::report::Painter::new();
        std::fs::create_dir_all(pictures)?;
        for figure in report.figures() {
            let path = Path::new(pictures).join(format!("{}.png", figure.id));
            std::fs::write(path, painter.png(figure, 1380)?)?;
        }
        Ok(())
    }
    #[cfg(not(feature = "png"))]
    Err(format!("built without pictures: {pictures} stays empty").into())
}
