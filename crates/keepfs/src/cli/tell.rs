//! Lines for people, of which nothing is a command to their terminal ([`keepfs_server::visible`]).

/// Prints one line of text, whatever it is made of, to standard output.
macro_rules! say {
    ($($words:tt)*) => {
        println!("{}", keepfs_server::visible::one_line(&format!($($words)*)))
    };
}
pub(crate) use say;

/// The same to standard error.
macro_rules! warn_of {
    ($($words:tt)*) => {
        eprintln!("{}", keepfs_server::visible::one_line(&format!($($words)*)))
    };
}
pub(crate) use warn_of;
