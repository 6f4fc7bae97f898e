//! What programs of the lab have in common: options with a number, and a place for pools.

use std::path::PathBuf;

/// The word behind an option, if it is there.
pub fn word<'a>(args: &'a [String], name: &str) -> Option<&'a String> {
    let at = args.iter().position(|arg| arg == name)?;
    args.get(at + 1)
}

/// The number behind an option, or `default` if the option is not there. Errors: no number stands there.
pub fn value(args: &[String], name: &str, default: u64) -> Result<u64, String> {
    match args.iter().any(|arg| arg == name) {
        false => Ok(default),
        true => word(args, name)
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| format!("{name} needs a number")),
    }
}

/// A name for a pool of this process, in memory if there is a place for that.
pub fn pool_of(program: &str) -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    let place = if shared.is_dir() { shared } else { std::env::temp_dir() };
    place.join(format!("keepfs-{program}-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn an_option_has_a_number() {
        let args = ["--kills", "7", "--seed"].map(str::to_owned);
        assert_eq!(value(&args, "--kills", 1), Ok(7));
        assert_eq!(value(&args, "--clients", 3), Ok(3));
        assert_eq!(value(&args, "--seed", 1), Err("--seed needs a number".into()));
    }
}
