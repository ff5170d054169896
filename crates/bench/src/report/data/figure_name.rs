//! The names of a summary's own figures, which end in their unit.

use crate::report::chart::Unit;

/// What a name says.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct FigureName {
    /// For humans.
    pub(in crate::report) title: String,
    unit: Unit,
    factor: f64,
}

/// The end of a name, its unit, and how many of that unit it is.
const UNITS: [(&str, Unit, f64); 14] = [
    ("_bytes_per_s", Unit::BytesRate, 1.0),
    ("_mb_per_s", Unit::BytesRate, 1e6),
    ("_mib_per_s", Unit::BytesRate, 1_048_576.0),
    ("_per_s", Unit::Rate, 1.0),
    ("_bytes", Unit::Bytes, 1.0),
    ("_mb", Unit::Bytes, 1e6),
    ("_share", Unit::Share, 1.0),
    ("_percent", Unit::Share, 0.01),
    ("_ratio", Unit::Factor, 1.0),
    ("_ns", Unit::Micros, 1e-3),
    ("_us", Unit::Micros, 1.0),
    ("_ms", Unit::Micros, 1e3),
    ("_s", Unit::Seconds, 1.0),
    ("_x", Unit::Factor, 1.0),
];

impl FigureName {
    /// Reads a name such as `close_s`.
    pub(in crate::report) fn new(name: &str) -> Self {
        let name = name.replace('-', "_");
        for (end, unit, factor) in UNITS {
            if let Some(start) = name.strip_suffix(end) {
                return Self { title: start.replace('_', " "), unit, factor };
            }
        }
        Self { title: name.replace('_', " "), unit: Unit::Count, factor: 1.0 }
    }

    /// A value of it with its unit.
    pub(in crate::report) fn show(&self, value: f64) -> String {
        self.unit.show(value * self.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_in_its_unit() {
        let show = |name: &str, value| {
            let name = FigureName::new(name);
            format!("{}: {}", name.title, name.show(value))
        };
        assert_eq!(show("close_s", 1.5), "close: 1.5 s");
        assert_eq!(show("read_p99_us", 1_500.0), "read p99: 1.5 ms");
        assert_eq!(show("sequential_write_mb_per_s", 812.0), "sequential write: 812 MB/s");
        assert_eq!(show("commits_per_sync", 12.345), "commits per sync: 12.3");
        assert_eq!(show("block_bytes", 4096.0), "block: 4.1 KB");
        assert_eq!(show("hit_share", 0.5), "hit: 50%");
    }
}
