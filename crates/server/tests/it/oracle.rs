//! The official crate `bson` as a second opinion: random documents are the same for both.

use super::{read, written};
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Decimal128, Document, Regex, Timestamp, oid::ObjectId};
use flagstone_testkit::Rng;

fn text(random: &mut Rng) -> String {
    let letters = ['a', 'b', 'z', '\u{e9}', '\u{1f600}', ' ', '$', '.', '\n'];
    (0..random.index(12)).map(|_| letters[random.index(letters.len())]).collect()
}

fn decimal(random: &mut Rng) -> Decimal128 {
    let digits: String =
        (0..=random.index(34)).map(|_| char::from(b'0' + random.index(10) as u8)).collect();
    let sign = if random.index(2) == 0 { "-" } else { "" };
    let exponent = random.index(100) as i64 - 50;
    format!("{sign}{digits}E{exponent}").parse().unwrap()
}

fn value(random: &mut Rng, depth: usize) -> Bson {
    let small = random.index(300) as i32 - 150;
    match random.index(if depth == 0 { 17 } else { 19 }) {
        0 => Bson::Double(f64::from_bits(random.number())),
        1 => Bson::Double(f64::from(small) / 4.0),
        2 => Bson::String(text(random)),
        3 => Bson::String("long ".repeat(random.index(100))),
        4 => Bson::Boolean(random.index(2) == 0),
        5 => Bson::Null,
        6 => Bson::Int32(small),
        7 => Bson::Int32(random.number() as i32),
        8 => Bson::Int64(small.into()),
        9 => Bson::Int64(random.number() as i64),
        10 => {
            Bson::ObjectId(ObjectId::from_bytes(std::array::from_fn(|_| random.index(256) as u8)))
        }
        11 => Bson::DateTime(DateTime::from_millis(random.number() as i64 / 2000)),
        12 => Bson::Decimal128(decimal(random)),
        13 => {
            let bytes = (0..random.index(20)).map(|_| random.index(256) as u8).collect();
            let subtypes = [0, 1, 3, 4, 5, 6, 0x80, 0xFF];
            let subtype = BinarySubtype::from(subtypes[random.index(subtypes.len())]);
            Bson::Binary(Binary { subtype, bytes })
        }
        14 => Bson::Timestamp(Timestamp {
            time: random.number() as u32,
            increment: random.number() as u32,
        }),
        15 => {
            let mut options = String::new();
            options.extend(['i', 'm', 'x'].iter().take(random.index(4)));
            Bson::RegularExpression(Regex {
                pattern: text(random).try_into().unwrap(),
                options: options.try_into().unwrap(),
            })
        }
        16 => [Bson::MinKey, Bson::MaxKey, Bson::Undefined, Bson::JavaScriptCode(text(random))]
            [random.index(4)]
        .clone(),
        17 => Bson::Array((0..random.index(6)).map(|_| value(random, depth - 1)).collect()),
        _ => Bson::Document(document(random, depth - 1)),
    }
}

fn document(random: &mut Rng, depth: usize) -> Document {
    let mut document = Document::new();
    for _ in 0..random.index(7) {
        let name =
            if random.index(3) == 0 { text(random) } else { format!("n{}", random.index(9)) };
        document.insert(name, value(random, depth));
    }
    document
}

#[test]
fn random_documents_come_back_byte_for_byte() {
    let mut random = super::random("random_documents_come_back_byte_for_byte");
    let (mut longs, mut bytes) = (0, 0);
    for _ in 0..4_000 {
        let document = document(&mut random, 4);
        let bson = document.to_vec().unwrap();
        let own = read(&bson).unwrap_or_else(|error| panic!("{document}: {error}"));
        assert_eq!(written(&own).unwrap(), bson, "{document}");
        longs += document.values().filter(|value| matches!(value, Bson::Int64(_))).count();
        bytes += bson.len();
    }
    assert!(longs > 500 && bytes > 100_000, "{longs} {bytes}");
}

/// What documents of flagstone have becomes BSON that the official crate reads as that.
#[test]
fn documents_of_json_are_read_by_the_official_crate() {
    let mut text = Vec::new();
    flagstone_comments::Comments::new(7).write_lines(0..200, &mut text);
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let document = flagstone::Document::from_json(str::from_utf8(line).unwrap()).unwrap();
        let bson = written(document.as_bytes()).unwrap();
        let read_by_bson = Document::from_reader(&bson[..]).unwrap();
        assert_eq!(read_by_bson.to_vec().unwrap(), bson);
        let root = document.root();
        for (name, value) in &read_by_bson {
            let own = root.get(name).unwrap().unwrap();
            match value {
                Bson::String(text) => assert_eq!(own.as_str(), Some(&**text)),
                Bson::Int32(int) => assert_eq!(own.as_i64(), Some(i64::from(*int))),
                Bson::Int64(int) => assert_eq!(own.as_i64(), Some(*int)),
                Bson::Double(double) => assert_eq!(own.as_f64(), Some(*double)),
                Bson::Boolean(bool) => assert_eq!(own.as_bool(), Some(*bool)),
                Bson::Null => assert!(own.is_null()),
                Bson::Array(items) => assert_eq!(own.len().unwrap(), items.len()),
                Bson::Document(inner) => assert_eq!(own.len().unwrap(), inner.len()),
                other => panic!("{name}: {other}"),
            }
        }
        let own = read(&bson).unwrap();
        assert_eq!(flagstone::Document::from_bytes(own, None).unwrap(), document);
    }
}

#[test]
fn decimals_are_read_and_written_as_the_official_crate_does() {
    let mut random = super::random("decimals_are_read_and_written_as_the_official_crate_does");
    let check = |decimal: Decimal128| {
        let bson = bson::doc! { "d": decimal }.to_vec().unwrap();
        let own = read(&bson).unwrap();
        let document = flagstone::Document::from_bytes(own.clone(), None).unwrap();
        let shown = decimal.to_string();
        if shown.contains("NaN") || shown.contains("Infinity") {
            let float = document.root().get("d").unwrap().unwrap().as_f64();
            assert!(float.is_some_and(|float| !float.is_finite()), "{shown}");
            return;
        }
        // A mark where only the exponent tells a decimal from a double.
        let json = document.to_json().unwrap().replace("E+0}", "}");
        assert_eq!(json, format!(r#"{{"d":{shown}}}"#));
        assert_eq!(written(&own).unwrap(), bson);
    };
    for text in ["0", "-0", "1E+6144", "9.999E-6170", "0.000001", "0E-20", "NaN", "-Infinity"] {
        check(text.parse().unwrap());
    }
    for _ in 0..5_000 {
        check(decimal(&mut random));
    }
}
