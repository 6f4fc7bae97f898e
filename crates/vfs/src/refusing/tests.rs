//! What is not there any more answers nothing but `EIO`.

use super::*;

#[test]
fn everything_fails_but_to_forget_and_to_unmount() {
    assert_eq!(Refusing.getattr(Ino(1)), Err(Errno::EIO));
    assert_eq!(Refusing.lookup(Ino(1), b"a"), Err(Errno::EIO));
    assert_eq!(Refusing.syncfs(), Err(Errno::EIO));
    Refusing.forget(Ino(1), 1);
    assert_eq!(Refusing.unmount(), Ok(()));
}
