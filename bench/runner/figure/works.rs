//! The workloads of the figures, as the program in bench/workloads calls them.

/// A workload.
pub struct Work {
    /// As the program calls it.
    pub name: &'static str,
    /// What prepares it.
    pub prepare: Option<&'static str>,
    /// Whether the file system is mounted anew before, with empty caches. Not done with one that cannot be.
    pub anew: bool,
    /// Its part of the seconds that were asked for; 0 for a job that ends by itself.
    pub share: f64,
}

const fn work(name: &'static str, prepare: Option<&'static str>, share: f64) -> Work {
    Work {
        name,
        prepare,
        anew: false,
        share,
    }
}

/// A job on a file system that was just mounted.
const fn anew(name: &'static str) -> Work {
    Work {
        name,
        prepare: None,
        anew: true,
        share: 0.0,
    }
}

/// filebench's.
pub const VARMAIL: &[Work] = &[work("varmail", Some("varmail-prepare"), 1.0)];
/// filebench's.
pub const FILESERVER: &[Work] = &[work("fileserver", Some("fileserver-prepare"), 1.0)];
/// filebench's.
pub const WEBSERVER: &[Work] = &[work("webserver", Some("webserver-prepare"), 1.0)];
/// filebench's.
pub const WEBPROXY: &[Work] = &[work("webproxy", Some("webproxy-prepare"), 1.0)];
/// One thread that syncs (ReconFS Fig. 7).
pub const SYNC: &[Work] = &[
    work("create", Some("single-prepare"), 0.4),
    work("append10", None, 0.4),
    work("append1000", None, 0.4),
    work("delete", Some("delete-prepare"), 0.0),
];
/// One thread, one call at a time.
pub const OPS: &[Work] = &[
    work("bare-create", Some("single-prepare"), 0.2),
    work("stat", None, 0.2),
    work("open", None, 0.2),
    work("rename", None, 0.2),
    work("unlink", None, 0.2),
    work("read4k", Some("random-prepare"), 0.2),
    work("write4k", None, 0.2),
];
/// The same and an fsync, to be profiled.
pub const WHERE: &[Work] = &[
    work("bare-create", Some("single-prepare"), 0.25),
    work("open", None, 0.25),
    work("stat", None, 0.25),
    work("append1", None, 0.25),
    work("write4k", Some("random-prepare"), 0.25),
    work("read4k", None, 0.25),
    work("rename", None, 0.25),
    work("unlink", None, 0.25),
];
/// What a person does; a program is named as it is called.
pub const DAY: &[Work] = &[
    work("untar", Some("everyday-prepare"), 0.0),
    work("cp", None, 0.0),
    work("ls", None, 0.0),
    work("find", None, 0.0),
    work("grep", None, 0.0),
    work("git-commit", None, 0.0),
    work("git-status", None, 0.0),
    work("rsync", None, 0.0),
    work("rsync-again", None, 0.0),
    work("rm", None, 0.0),
    anew("ls-cold"),
    anew("git-status-cold"),
    work("cargo", None, 0.0),
    work("pgbench", Some("pgbench-prepare"), 0.0),
];
/// The metadata workload of Greenan & Miller (section 5.3), by files of a directory.
pub const METADATA: &[Work] = &[
    work("metadata-100", None, 0.0),
    work("metadata-180", None, 0.0),
    work("metadata-260", None, 0.0),
    work("metadata-340", None, 0.0),
    work("metadata-420", None, 0.0),
    work("metadata-500", None, 0.0),
];
/// One large file.
pub const SEQUENTIAL: &[Work] = &[work("write", None, 0.0), anew("read"), work("reread", None, 0.0)];
/// All of filebench's.
pub const COMPACTION: &[Work] = &[
    work("varmail", Some("varmail-prepare"), 1.0),
    work("fileserver", Some("fileserver-prepare"), 1.0),
    work("webproxy", Some("webproxy-prepare"), 1.0),
    work("webserver", Some("webserver-prepare"), 1.0),
];
