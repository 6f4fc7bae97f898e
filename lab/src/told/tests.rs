//! What is told can be read.

use super::*;

#[test]
fn a_line_has_all_numbers() {
    let told = Told::new("load 50 %", "off", 1.5, "us")
        .with("low", 1.0)
        .with("high", f64::NAN);
    assert_eq!(
        told.json(),
        r#"{"workload":"load 50 %","peer":"off","value":1.5,"unit":"us","more":{"low":1,"high":0}}"#
    );
}
