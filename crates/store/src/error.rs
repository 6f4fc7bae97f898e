//! How a step of a transaction ends early; why it stops is [`keepfs_flash::Stop`], what can go wrong [`keepfs_pool::Error`].

pub use keepfs_flash::{Pressure, Stop, stopped};
pub use keepfs_pool::{BadData, Error};

/// How a transaction's closure ends early.
#[derive(Debug)]
pub enum Abort<E> {
    /// Roll back and, if it can be mended, run again.
    Retry(Stop),
    /// Roll back and fail.
    Fail(E),
}

impl<E: From<Error>> From<Stop> for Abort<E> {
    fn from(stop: Stop) -> Abort<E> {
        match stop {
            Stop::Error(e) => Abort::Fail(e.into()),
            other => Abort::Retry(other),
        }
    }
}

impl<E: From<Error>> From<Error> for Abort<E> {
    fn from(e: Error) -> Abort<E> {
        Abort::Fail(e.into())
    }
}
