//! Floors: what a file system that costs nothing would reach, by rows of the same run. Below lie the transport (the empty
//! file system in memory behind it has its own row) and, on a modelled device, each fsync's flush and the bytes
//! themselves.

use super::sample::Rounds;

/// Behind the name of what two programs at once did with a pool each.
pub const TWO_PROGRAMS: &str = ", 2 programs";

/// The most that `peer` can have in this workload, in the unit of the rows; nothing if no row tells it, if the unit is not
/// one of speed, or if `other`, which it is compared with, is the bare transport itself.
pub fn best(rows: &[&Rounds<'_>], peer: &str, other: &str) -> Option<f64> {
    let speed = rows.first().is_some_and(|row| row.median.unit.ends_with("/s"));
    let bare = transport(peer).filter(|bare| *bare != other);
    let bare = bare.and_then(|bare| rows.iter().find(|row| row.median.peer == bare));
    let seconds = [bare.map(|row| 1.0 / row.median.value), device_s(rows, peer)];
    let seconds: f64 = seconds.into_iter().flatten().sum();
    (speed && transport(peer) != Some(other) && seconds > 0.0).then(|| 1.0 / seconds)
}

/// How many times as much as one thread two programs did at once that share nothing but the machine, in the same run;
/// nothing if `peer` is not two threads of `other`.
pub fn two_programs(rows: &[&Rounds<'_>], peer: &str, other: &str) -> Option<f64> {
    let of = |peer: &str| {
        rows.iter()
            .find(|row| row.median.peer == peer)?
            .median
            .get("per_second")
    };
    let alone = "in memory";
    let is_twice = peer.strip_suffix(", 2 threads") == Some(other);
    let both = is_twice.then(|| of(&format!("{alone}{TWO_PROGRAMS}")))??;
    of(alone).filter(|one| *one > 0.0).map(|one| both / one)
}

/// The bare transport of a file system. Writes that the kernel keeps back do not cross it one by one.
fn transport(peer: &str) -> Option<&'static str> {
    match peer {
        "keepfs" | "keepfs-ec" => Some("memory-dev"),
        "keepfs-uring" => Some("memory-uring"),
        _ => None,
    }
}

/// Seconds of a modelled device that an operation cannot do without when one thread waits for each: a flush an fsync, and
/// the file's own bytes at the rate in order.
fn device_s(rows: &[&Rounds<'_>], peer: &str) -> Option<f64> {
    let sample = rows.iter().find(|row| row.median.peer == peer)?.median;
    if sample.get("threads") != Some(1.0) {
        return None;
    }
    let (flush_us, rate) = (sample.get("model_flush_us")?, sample.get("model_write_bytes_s")?);
    let flushes = sample.each("fsyncs")? * flush_us / 1e6;
    Some(flushes + sample.each("bytes")? / rate)
}

#[cfg(test)]
mod tests;
