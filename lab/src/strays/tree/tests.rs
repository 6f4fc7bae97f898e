//! What differs between two trees, and whose bytes stand where others should.

use super::*;

fn wrong(right: &Path, found: &Path, look: Look) -> Vec<String> {
    let all = compare(right, found, look);
    all.wrong.into_iter().map(|(_, what)| what).collect()
}

#[test]
fn a_file_that_is_another_one_is_told_as_that() {
    let dir = tempfile::tempdir().expect("a directory");
    let (right, found) = (dir.path().join("right"), dir.path().join("found"));
    for root in [&right, &found] {
        fs::create_dir(root).expect("mkdir");
        for (name, byte) in [("a", 1), ("b", 2)] {
            fs::write(root.join(name), [byte; 100]).expect("write");
        }
    }
    assert_eq!(wrong(&right, &found, Look::Content), [""; 0]);
    fs::write(found.join("a"), [2; 100]).expect("write");
    let told = wrong(&right, &found, Look::Part);
    let whose = format!(
        "has 100 wrong bytes, the first at 0, and is all of {}",
        right.join("b").display()
    );
    assert_eq!(told, [whose]);
    fs::write(found.join("a"), [2; 50]).expect("write");
    assert_eq!(
        wrong(&right, &found, Look::Part),
        ["has 50 wrong bytes, the first at 0"]
    );
}

/// A part lacks names and ends, and nothing else.
#[test]
fn a_part_may_be_short_and_not_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let (right, found) = (dir.path().join("right"), dir.path().join("found"));
    fs::create_dir(&right).expect("mkdir");
    fs::write(right.join("a"), [1; 100]).expect("write");
    fs::write(right.join("b"), [1; 100]).expect("write");
    fs::create_dir(&found).expect("mkdir");
    fs::write(found.join("a"), [1; 40]).expect("write");
    assert_eq!(wrong(&right, &found, Look::Part), [""; 0]);
    assert_eq!(wrong(&right, &found, Look::Content).len(), 2);
    fs::write(found.join("a"), [1; 101]).expect("write");
    assert_eq!(wrong(&right, &found, Look::Part), ["has 101 bytes and not 100"]);
}
