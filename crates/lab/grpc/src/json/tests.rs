use serde_json::json;

use super::*;

fn schema() -> Schema {
    Schema::of_set(include_bytes!("../../tests/shop.binpb"), "shop.binpb").unwrap()
}

/// The place and the reason of a refusal.
fn refusal(value: Value) -> String {
    let Misfit { path, why } = message(&schema(), "shop.v1.Order", &value).unwrap_err();
    format!("{path}: {why}")
}

#[test]
fn a_message_is_written_by_the_numbers_of_its_fields() {
    let order = json!({
        "items": [{"name": "pen", "priceCents": 250, "colour": "COLOUR_RED"}, {"price_cents": "1e2"}],
        "buyer": "ann",
        "due": "1970-01-01T00:00:01.5Z",
        "cash": false,
    });
    let wanted = [
        b"\x0a\x03ann".as_slice(),
        b"\x12\x0a\x0a\x03pen\x10\xfa\x01\x18\x01",
        b"\x12\x02\x10\x64",
        b"\x1a\x08\x08\x01\x10\x80\xca\xb5\xee\x01",
        // Of alternatives, the default is written too.
        b"\x30\x00",
    ]
    .concat();
    assert_eq!(message(&schema(), "shop.v1.Order", &order), Ok(wanted));
    let nothing = json!({"buyer": "", "items": [], "due": null, "signature": ""});
    assert_eq!(message(&schema(), "shop.v1.Order", &nothing), Ok(Vec::new()));
}

#[test]
fn a_value_that_does_not_fit_is_named_with_its_place() {
    for (value, wanted) in [
        (json!([]), ": must be an object, not []"),
        (json!({"buyr": 1}), "buyr: is no field of shop.v1.Order; did you mean 'buyer'?"),
        (json!({"buyer": 1}), "buyer: must be a string, not 1"),
        (json!({"items": {}}), "items: must be an array, not {}"),
        (
            json!({"items": [{}, {"priceCents": "2.5"}]}),
            "items[1].priceCents: must be a whole number, not \"2.5\"",
        ),
        (
            json!({"items": [{"priceCents": 3e9}]}),
            "items[0].priceCents: is out of range: 3000000000",
        ),
        (
            json!({"items": [{"colour": "RED"}]}),
            "items[0].colour: is no value of shop.v1.Colour: \"RED\"; there are: COLOUR_UNKNOWN, \
             COLOUR_RED",
        ),
        (json!({"items": [null]}), "items[0]: must be an object, not null"),
        (
            json!({"items": [{"tags": {"a b": 1}}]}),
            "items[0].tags[\"a b\"]: must be true or false, not 1",
        ),
        (
            json!({"items": [{"priceCents": 1, "price_cents": 1}]}),
            "items[0].price_cents: is given under both of its names",
        ),
        (
            json!({"due": "today"}),
            "due: must be a time such as \"2026-01-31T12:00:00Z\", not \"today\"",
        ),
        (json!({"signature": "%"}), "signature: must be a string of base64, not \"%\""),
        (json!({"cash": true, "card": "1"}), "cash: cannot be set beside 'card'"),
        (json!({"weight": "heavy"}), "weight: must be a number, not \"heavy\""),
        (
            json!({"buyer": ["x".repeat(100)]}),
            "buyer: must be a string, not [\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…",
        ),
    ] {
        assert_eq!(refusal(value), wanted);
    }
}

#[test]
fn a_definition_that_is_missing_only_matters_if_it_is_used() {
    let all = crate::descriptor::files(include_bytes!("../../tests/shop.binpb")).unwrap();
    let mut schema = Schema::empty("x");
    all.into_iter().filter(|file| file.name == "shop.proto").for_each(|file| schema.add(file));
    assert_eq!(schema.missing(), ["google/protobuf/timestamp.proto"]);
    let item = json!({"name": "a"});
    assert_eq!(message(&schema, "shop.v1.Item", &item), Ok(b"\x0a\x01a".to_vec()));
    let missing = message(&schema, "shop.v1.Missing", &json!({})).unwrap_err();
    assert_eq!(
        missing.why,
        "cannot be encoded: the descriptors lack 'shop.v1.Missing'; make them with --include_imports"
    );
}
