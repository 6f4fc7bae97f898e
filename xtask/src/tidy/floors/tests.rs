//! Each breach of the floors, found as exactly that breach.

use serde_json::{Value, json};

use super::{Finding, check};

fn workspace(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
    let dependencies: Vec<Value> = dependencies
        .iter()
        .map(|(to, kind)| json!({"name": to, "kind": kind, "path": format!("/w/{to}")}))
        .collect();
    json!({"packages": [{"name": name, "dependencies": dependencies}]})
}

#[test]
fn imports_that_go_down_are_fine() {
    let downward = workspace("keepfs-store", &[("keepfs-format", None), ("keepfs-digest", None)]);
    assert_eq!(check(&downward), Ok(vec![]));
}

#[test]
fn an_import_that_goes_up_is_found() {
    let upward = workspace("keepfs-check", &[("keepfs-format", None), ("keepfs-store", None)]);
    let expected = Finding::Import {
        from: "keepfs-check".into(),
        to: "keepfs-store".into(),
        dev: false,
    };
    assert_eq!(check(&upward), Ok(vec![expected]));
}

#[test]
fn a_test_that_imports_upward_is_found() {
    let upward = workspace("keepfs-vfs", &[("keepfs-fs", Some("dev"))]);
    let expected = Finding::Import {
        from: "keepfs-vfs".into(),
        to: "keepfs-fs".into(),
        dev: true,
    };
    assert_eq!(check(&upward), Ok(vec![expected]));
}

#[test]
fn a_product_may_not_stand_on_what_tests_judge_by() {
    let tested = workspace("keepfs-store", &[("keepfs-testkit", Some("dev"))]);
    assert_eq!(check(&tested), Ok(vec![]));
    let expected = Finding::Import {
        from: "keepfs-store".into(),
        to: "keepfs-testkit".into(),
        dev: false,
    };
    let shipped = workspace("keepfs-store", &[("keepfs-testkit", None)]);
    assert_eq!(check(&shipped), Ok(vec![expected]));
}

#[test]
fn a_test_may_import_what_its_table_says_and_the_code_may_not() {
    assert_eq!(
        check(&workspace("keepfs-fs", &[("keepfs-check", Some("dev"))])),
        Ok(vec![])
    );
    let expected = Finding::Import {
        from: "keepfs-fs".into(),
        to: "keepfs-check".into(),
        dev: false,
    };
    assert_eq!(
        check(&workspace("keepfs-fs", &[("keepfs-check", None)])),
        Ok(vec![expected])
    );
}

#[test]
fn nobody_imports_the_lab() {
    let package = workspace("keepfs", &[("keepfs-lab", None)]);
    let expected = Finding::Import {
        from: "keepfs".into(),
        to: "keepfs-lab".into(),
        dev: false,
    };
    assert_eq!(check(&package), Ok(vec![expected]));
}

#[test]
fn a_package_without_a_floor_is_found() {
    assert_eq!(
        check(&workspace("keepfs-common", &[])),
        Ok(vec![Finding::UnknownPackage("keepfs-common".into())])
    );
}

#[test]
fn packages_of_the_registry_are_no_floors() {
    let outside = json!({"packages": [{"name": "xtask", "dependencies": [{"name": "libc", "kind": null}]}]});
    assert_eq!(check(&outside), Ok(vec![]));
}

#[test]
fn metadata_without_packages_is_an_error() {
    assert!(check(&json!({})).is_err());
}
