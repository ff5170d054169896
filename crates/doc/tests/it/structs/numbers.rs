//! Numbers are exact if the type is exact, and follow stated rules otherwise.

use super::{comes_back, from_json, refusal};
use flagstone_doc::{Document, Number, Value, doc};
use serde::{Deserialize, Serialize, Serializer};

#[test]
fn integers_of_all_widths_are_exact() {
    comes_back(&(i8::MIN, i16::MIN, i32::MIN, i64::MIN, i128::MIN));
    comes_back(&(u8::MAX, u16::MAX, u32::MAX, u64::MAX, u128::MAX));
    comes_back(&(i128::from(u64::MAX) + 1, i128::from(i64::MIN) - 1, -1_i128, 1_u128 << 64));
    let json = Document::from_serialize(&(u128::MAX, i128::MIN)).unwrap().to_json().unwrap();
    assert_eq!(json, format!("[{},{}]", u128::MAX, i128::MIN));
}

#[test]
fn an_integer_is_read_from_any_literal_of_its_value() {
    for literal in ["1000", "1000.0", "1e3", "1.000E+3", "100000e-2"] {
        assert_eq!(from_json::<u16>(literal), 1000, "{literal}");
        assert_eq!(from_json::<i128>(literal), 1000, "{literal}");
        assert_eq!(from_json::<f32>(literal), 1000.0, "{literal}");
        assert_eq!(from_json::<f64>(literal), 1000.0, "{literal}");
    }
    let float = Document::from_value(&Value::Float(7.0)).unwrap();
    assert_eq!(float.to::<u8>().unwrap(), 7);
    assert_eq!(from_json::<u64>("-0"), 0);
    assert_eq!(from_json::<f64>("-0").to_bits(), (-0.0_f64).to_bits());
}

#[test]
fn a_number_that_does_not_fit_is_refused_with_its_text() {
    assert!(refusal::<u8>("300").contains("integer `300`, expected u8"));
    assert!(refusal::<u8>("-1").contains("integer `-1`, expected u8"));
    assert!(refusal::<i64>("1.5").contains("number 1.5, expected i64"));
    assert!(refusal::<u64>("1e400").contains("number 1e400, expected u64"));
    assert!(refusal::<i64>("9223372036854775808").contains("9223372036854775808"));
    assert!(refusal::<i64>("18446744073709551616").contains("18446744073709551616"));
    assert!(refusal::<u128>("340282366920938463463374607431768211456").contains("number 3402823"));
    assert!(refusal::<f64>("1e400").contains("number 1e400, expected f64"));
    assert!(refusal::<f32>("1e39").contains("number 1e39, expected f32"));
    assert!(refusal::<bool>("1.5").contains("number 1.5, expected a boolean"));
}

#[test]
fn floats_keep_what_they_are() {
    for float in [0.1, -2.5, 1e300, 5e-324, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX] {
        let document = Document::from_serialize(&float).unwrap();
        assert_eq!(document.to::<f64>().unwrap().to_bits(), float.to_bits(), "{float}");
    }
    for float in [0.1_f32, -2.5, 1e38, 1e-45, -0.0, f32::INFINITY, f32::MAX, 16_777_217.0] {
        let document = Document::from_serialize(&float).unwrap();
        assert_eq!(document.to::<f32>().unwrap().to_bits(), float.to_bits(), "{float}");
    }
    let nan = Document::from_serialize(&(f64::NAN, f32::NAN)).unwrap();
    let (wide, short): (f64, f32) = nan.to().unwrap();
    assert!(wide.is_nan() && short.is_nan());
    let text = r#"[{"$numberDouble":"NaN"},{"$numberDouble":"NaN"}]"#;
    assert_eq!(nan.to_json().unwrap(), text, "JSON has no such number");
    let error = nan.to::<(i64, f32)>().unwrap_err().to_string();
    assert!(error.starts_with("0: ") && error.contains("NaN"), "{error}");
}

#[test]
fn a_float_of_32_bits_is_stored_as_the_shortest_decimal() {
    let document = Document::from_serialize(&(0.1_f32, 0.1_f64)).unwrap();
    assert_eq!(document.to_json().unwrap(), "[0.1,0.1]");
    assert_eq!(document.to_value(), doc!([0.1, 0.1]));
}

#[test]
fn numbers_keep_their_literal_as_fields() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Prices {
        net: Number,
        gross: Option<Number>,
        list: Vec<Value>,
    }
    let json = r#"{"net":1.10,"gross":1e400,"list":[-0,18446744073709551616,7,0.10]}"#;
    let prices: Prices = from_json(json);
    assert_eq!(prices.net.as_str(), "1.10");
    assert_eq!(comes_back(&prices).to_json().unwrap(), json);
    assert_eq!(from_json::<Number>("-300").as_str(), "-300");
    let float = Document::from_value(&Value::Float(0.5)).unwrap();
    assert_eq!(float.to::<Number>().unwrap().as_str(), "0.5");
    assert!(Document::from_value(&Value::Float(f64::NAN)).unwrap().to::<Number>().is_err());
    assert!(refusal::<Number>("[]").contains("an array, expected a number"));
}

/// A number in the form that `serde_json` writes with its feature `arbitrary_precision`.
struct Arbitrary(&'static str);

impl Serialize for Arbitrary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut number = serializer.serialize_struct("$serde_json::private::Number", 1)?;
        number.serialize_field("$serde_json::private::Number", self.0)?;
        number.end()
    }
}

#[test]
fn numbers_of_serde_json_with_arbitrary_precision_are_numbers() {
    #[derive(Serialize)]
    struct Order {
        price: Arbitrary,
        more: Vec<Arbitrary>,
    }
    let order = Order { price: Arbitrary("1.10"), more: vec![Arbitrary("7"), Arbitrary("1e400")] };
    let document = Document::from_serialize(&order).unwrap();
    assert_eq!(document.to_json().unwrap(), r#"{"price":1.10,"more":[7,1e400]}"#);
    assert_eq!(document.get("more.0").unwrap().as_i64(), Some(7));
    assert_eq!(Document::from_serialize(&Arbitrary("5")).unwrap().to_json().unwrap(), "5");
    let error = Document::from_serialize(&[Arbitrary("five")]).unwrap_err();
    assert!(error.to_string().starts_with("0: "), "{error}");
}

#[test]
fn values_of_serde_json_go_in_and_come_out() {
    let json = r#"{"a":[1,-2,1.5,null,true,"x"],"b":{"c":18446744073709551615,"d":1.1}}"#;
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    let document = Document::from_serialize(&value).unwrap();
    assert_eq!(document.to_json().unwrap(), json);
    assert_eq!(document.to::<serde_json::Value>().unwrap(), value);
    assert_eq!(from_json::<serde_json::Value>(json), value);
}
