//! As much of JSON Schema (draft 2020-12) as docs/schema/ uses: what it does not know it refuses, so that nothing in a
//! schema is silently without effect.

use serde_json::Value;

/// What is wrong with `value`, a line each with the place.
pub fn errors(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    check(root, schema, value, "", &mut wrong);
    wrong
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().unwrap() {
        let mut say = |what: &str| wrong.push(format!("{at}: {value} {what} {rule}"));
        match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                check(root, root.pointer(pointer).unwrap(), value, at, wrong);
            }
            "anyOf" => {
                let fits = |rule: &Value| errors(root, rule, value).is_empty();
                if !rule.as_array().unwrap().iter().any(fits) {
                    say("is none of");
                }
            }
            "type" if !is(value, rule.as_str().unwrap()) => say("is no"),
            "const" if value != rule => say("is not"),
            "enum" if !rule.as_array().unwrap().contains(value) => say("is none of"),
            "minimum" if value.as_f64() < rule.as_f64() => say("is less than"),
            "maximum" if value.as_f64() > rule.as_f64() => say("is more than"),
            "required" => {
                let missing = |name: &&Value| value.get(name.as_str().unwrap()).is_none();
                let names = rule.as_array().unwrap().iter().filter(missing);
                wrong.extend(names.map(|name| format!("{at}: {name} is missing")));
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(field) = value.get(name) {
                        check(root, rule, field, &format!("{at}/{name}"), wrong);
                    }
                }
            }
            "additionalProperties" => {
                assert_eq!(rule, false, "only false is known");
                let unknown = |name: &&String| schema["properties"].get(name.as_str()).is_none();
                let names = value.as_object().into_iter().flat_map(|fields| fields.keys());
                wrong.extend(
                    names
                        .filter(unknown)
                        .map(|name| format!("{at}: {name} is not promised")),
                );
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{at}/{i}"), wrong);
                }
            }
            "type" | "const" | "enum" | "minimum" | "maximum" => {}
            other => panic!("this test does not know the keyword {other}"),
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("no such type: {other}"),
    }
}
