//! The operations the kernel asks for.

macro_rules! opcodes {
    ($($name:ident = $n:literal, $text:literal;)*) => {
        /// An operation of the protocol, with its number on the wire.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u32)]
        pub enum Opcode { $(#[doc = $text] $name = $n,)* }

        impl Opcode {
            /// Every operation that is known.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// The operation with the number `n`, if it is known.
            pub fn from_wire(n: u32) -> Option<Opcode> {
                match n { $($n => Some(Opcode::$name),)* _ => None }
            }

            /// Its name, as the kernel writes it without the prefix `FUSE_`.
            pub fn name(self) -> &'static str {
                match self { $(Opcode::$name => $text,)* }
            }
        }
    };
}

opcodes! {
    Lookup = 1, "LOOKUP";
    Forget = 2, "FORGET";
    Getattr = 3, "GETATTR";
    Setattr = 4, "SETATTR";
    Readlink = 5, "READLINK";
    Symlink = 6, "SYMLINK";
    Mknod = 8, "MKNOD";
    Mkdir = 9, "MKDIR";
    Unlink = 10, "UNLINK";
    Rmdir = 11, "RMDIR";
    Rename = 12, "RENAME";
    Link = 13, "LINK";
    Open = 14, "OPEN";
    Read = 15, "READ";
    Write = 16, "WRITE";
    Statfs = 17, "STATFS";
    Release = 18, "RELEASE";
    Fsync = 20, "FSYNC";
    Setxattr = 21, "SETXATTR";
    Getxattr = 22, "GETXATTR";
    Listxattr = 23, "LISTXATTR";
    Removexattr = 24, "REMOVEXATTR";
    Flush = 25, "FLUSH";
    Init = 26, "INIT";
    Opendir = 27, "OPENDIR";
    Readdir = 28, "READDIR";
    Releasedir = 29, "RELEASEDIR";
    Fsyncdir = 30, "FSYNCDIR";
    Getlk = 31, "GETLK";
    Setlk = 32, "SETLK";
    Setlkw = 33, "SETLKW";
    Access = 34, "ACCESS";
    Create = 35, "CREATE";
    Interrupt = 36, "INTERRUPT";
    Bmap = 37, "BMAP";
    Destroy = 38, "DESTROY";
    Ioctl = 39, "IOCTL";
    Poll = 40, "POLL";
    NotifyReply = 41, "NOTIFY_REPLY";
    BatchForget = 42, "BATCH_FORGET";
    Fallocate = 43, "FALLOCATE";
    Readdirplus = 44, "READDIRPLUS";
    Rename2 = 45, "RENAME2";
    Lseek = 46, "LSEEK";
    CopyFileRange = 47, "COPY_FILE_RANGE";
    Setupmapping = 48, "SETUPMAPPING";
    Removemapping = 49, "REMOVEMAPPING";
    Syncfs = 50, "SYNCFS";
    Tmpfile = 51, "TMPFILE";
    Statx = 52, "STATX";
    CopyFileRange64 = 53, "COPY_FILE_RANGE_64";
}
