//! Sizes: read, written, refused.

use super::Size;

#[test]
fn sizes_are_read() {
    let cases = [
        ("0", 0),
        ("4096", 4096),
        ("1K", 1024),
        ("64m", 64 << 20),
        ("10G", 10 << 30),
        ("10GiB", 10 << 30),
        ("2TB", 2 << 40),
        ("512B", 512),
        ("1.5G", 3 << 29),
        ("0.25gib", 1 << 28),
        ("1.0005K", 1024),
        ("2.999999999999999999T", (3 << 40) - 1),
        ("15.9999999999999999P", (16 << 50) - 1),
    ];
    for (text, bytes) in cases {
        assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
    }
}

#[test]
fn nonsense_is_refused_with_an_example() {
    for text in [
        "",
        "G",
        "-1",
        "+1",
        "1.5",
        "1.G",
        ".5G",
        "1.5.5G",
        "1.+5G",
        "1,5G",
        "1e3",
        "10X",
        "99999999999999999999",
        "20000000T",
    ] {
        let error = text.parse::<Size>().unwrap_err();
        assert!(error.contains("10G"), "{text}: {error}");
    }
}

#[test]
fn sizes_are_written_with_three_digits() {
    let cases = [
        (0, "0"),
        (1023, "1023"),
        (1024, "1.00K"),
        (10 << 10, "10.0K"),
        (100 << 10, "100K"),
        (1023 << 10, "1023K"),
        ((1 << 30) + (1 << 28), "1.25G"),
    ];
    for (bytes, text) in cases {
        assert_eq!(Size(bytes).to_string(), text);
    }
}
