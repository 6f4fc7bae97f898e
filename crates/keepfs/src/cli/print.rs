//! The status of a pool as text, in the order that users of zpool(8) know.

use super::times;
use keepfs_server::figures::{
    ArenaFigures, DeathFigures, ErrorFigures, KeeperFigures, LogFigures, SpaceFigures, Status, WrittenFigures,
};
use keepfs_server::size::Size;
use keepfs_server::visible::{self, one_line};
use std::fmt::Write;

/// The last scrub, and when it ended, or began.
fn scrub(s: &Status) -> String {
    match (s.scrub_ended_s, s.scrub_began_s) {
        (Some(ended), _) => format!("{}; ended {}", s.scrub, times::told(ended)),
        (None, Some(began)) => format!("{}; began {}", s.scrub, times::told(began)),
        (None, None) => s.scrub.clone(),
    }
}

/// The lines of one pool.
pub fn text(s: &Status) -> String {
    let mut lines = Lines::default();
    let name = match s.label.as_str() {
        "" => visible::path(&s.pool),
        label => format!("{label} ({})", visible::path(&s.pool)),
    };
    lines.add("pool", &name);
    lines.add("id", if s.id.is_empty() { "unknown" } else { &s.id });
    lines.add("state", &s.state);
    lines.add("status", s.status.as_deref().unwrap_or("nothing to report"));
    lines.add("action", s.action.as_deref().unwrap_or("none needed"));
    lines.add("scrub", &scrub(s));
    if s.test {
        lines.add("test", "a pool for tests: `keepfs inject` may put faults into it");
    }
    if let Some(exposed) = &s.exposed {
        lines.add("access", exposed);
    }
    if let Some(shared) = shared(s) {
        lines.add("shared", &shared);
    }
    lines.add("mount", &mount(s));
    lines.add("space", &s.space.as_ref().map_or("unknown".into(), space));
    if let Some(arena) = &s.arena {
        lines.add("arena", &self::arena(arena));
        lines.add("watched", &watched(arena));
    } else if !s.protect.is_empty() {
        let protect = format!(
            "protect {} (keepfs set); guard and audit are options of the mount",
            s.protect
        );
        lines.add("watched", &protect);
    }
    if let Some(arena) = s.arena.as_ref().filter(|a| a.repaired + a.read_again > 0) {
        lines.add("mended", &mended(arena));
    }
    if let Some(log) = &s.log {
        lines.add("log", &self::log(log, s.mount.is_some()));
    }
    if let Some(written) = &s.written {
        lines.written(written);
    }
    if let Some(failed) = s.device_errors.filter(|failed| *failed != ErrorFigures::default()) {
        let ErrorFigures {
            read,
            write,
            flush,
            checksum,
        } = failed;
        lines.add(
            "failed",
            &format!("{read} reads, {write} writes, {flush} flushes, {checksum} checksums"),
        );
    }
    if let Some(dropped) = s.scribbles_dropped.filter(|dropped| *dropped > 0) {
        lines.add("scribbled", &format!("{dropped} clean frames, dropped"));
    }
    lines.add("errors", &errors(s));
    lines.0
}

/// What other machines that reach the pool are told, and told us.
fn shared(s: &Status) -> Option<String> {
    let shown = s
        .mmp_s
        .map(|seconds| format!("other machines are shown every {seconds} s that it is in use (mmp)"));
    match (&s.mmp_by, shown) {
        (Some(by), _) => Some(format!("in use by {by}, or it was when that ended")),
        (None, shown) => shown,
    }
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: &str) {
        // Writing to a String never fails.
        let _ = writeln!(self.0, "{name:>9}: {}", one_line(value));
    }

    fn written(&mut self, w: &WrittenFigures) {
        let (class, cause) = (&w.class_bytes, &w.cause_bytes);
        let classes = [
            ("data", class.data),
            ("plog", class.plog),
            ("metadata", class.metadata),
            ("map", class.map),
            ("superblock", class.superblock),
            ("history", class.history),
        ];
        let causes = [
            ("eviction", cause.eviction),
            ("checkpoint", cause.checkpoint),
            ("consistency", cause.consistency),
            ("persistence", cause.persistence),
        ];
        self.add("written", &named(&classes));
        self.add("causes", &named(&causes));
        self.add(
            "device",
            &format!(
                "{} flushes, {} read, {} discarded; {} transactions, {} checkpoints",
                w.flushes,
                Size(w.read_bytes),
                Size(w.discarded_bytes),
                w.transactions,
                w.checkpoints
            ),
        );
    }
}

fn named(parts: &[(&str, u64)]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, bytes)| format!("{name} {}", Size(*bytes)))
        .collect();
    parts.join(", ")
}

fn mount(s: &Status) -> String {
    let Some(dir) = s.dir.as_deref().map(visible::path) else {
        return if s.state == "UNKNOWN" { "unknown" } else { "not mounted" }.into();
    };
    let Some(m) = &s.mount else {
        return format!("{dir}, without a server that answers");
    };
    let mode = match (m.writing_ended, m.changes_refused, m.read_only) {
        (true, _, _) => "read-only since writing ended",
        (false, _, true) => "read-only",
        (false, true, false) => "changes are refused since servers died too often",
        (false, false, false) => "read-write",
    };
    let anchor = if m.anchored { "anchored" } else { "not anchored" };
    let directories = if m.nodiratime { ", nodiratime" } else { "" };
    format!(
        "{dir} ({mode}, {}{directories}, cache {}, io {}, commit every {} s, {anchor}, transport {}), server {}{}",
        m.access_times,
        m.cache,
        m.io,
        m.commit_s,
        m.transport,
        s.server_pid.map_or("unknown".into(), |pid| pid.to_string()),
        s.keeper.as_ref().map_or_else(String::new, keeper)
    )
}

fn keeper(k: &KeeperFigures) -> String {
    let death = |death: &DeathFigures| {
        format!(
            " (the last by {}, at {}, {} ms until the next answered)",
            death.how,
            times::told(i64::try_from(death.at_s).unwrap_or(i64::MAX)),
            death.pause_ms
        )
    };
    let deaths = k.last_death.as_ref().map_or_else(String::new, death);
    let dead = if k.alive { "" } else { " (dead)" };
    format!(", keeper {}{dead}, {} deaths{deaths}", k.pid, k.deaths)
}

fn space(s: &SpaceFigures) -> String {
    let percent = (s.used_bytes * 100).checked_div(s.size_bytes).unwrap_or(0);
    format!(
        "{} in all, {} used ({percent} %), {} available; {} inodes",
        Size(s.size_bytes),
        Size(s.used_bytes),
        Size(s.available_bytes),
        s.inodes
    )
}

fn arena(a: &ArenaFigures) -> String {
    format!(
        "{} frames ({}), {} dirty, {} evictions, {} fetched",
        a.frames,
        Size(a.frames * keepfs_format::PAGE as u64),
        a.dirty_frames,
        a.evictions,
        a.fetched
    )
}

/// What watches metadata in memory, each with the way to change it.
fn watched(a: &ArenaFigures) -> String {
    let audit = if a.audit.is_empty() { "unknown" } else { &a.audit };
    format!(
        "protect {} (keepfs set), guard {}, audit {audit} (mount options)",
        a.protect, a.guard
    )
}

fn mended(a: &ArenaFigures) -> String {
    format!("{} frames repaired, {} read again", a.repaired, a.read_again)
}

fn log(l: &LogFigures, mounted: bool) -> String {
    let groups = if mounted { "written" } else { "to replay" };
    let checkpoint = l
        .since_checkpoint_s
        .map_or(String::new(), |seconds| format!(", last checkpoint {seconds} s ago"));
    format!(
        "{}, {} % full, {} groups {groups}, transaction {} durable of {}{checkpoint}",
        Size(l.size_bytes),
        l.used_percent,
        l.groups,
        l.durable_seq,
        l.last_seq
    )
}

fn errors(s: &Status) -> String {
    let known = match s.errors.is_empty() {
        true => "no known errors".to_owned(),
        false => s.errors.join("; "),
    };
    match s.events {
        0 => known,
        n => format!("{known}; {n} events of this server (keepfs events)"),
    }
}
