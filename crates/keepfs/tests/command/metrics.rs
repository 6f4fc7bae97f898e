//! What Prometheus gets of mounted pools: on standard output, in a file, over HTTP.

use crate::bed::{self, Bed, KEEPFS, done, fails, keepfs, soon};
use crate::exposition::{Metrics, parse};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Of the mounts at `dirs`.
fn metrics(dirs: &[&Path]) -> Metrics {
    let text = done(keepfs(["metrics"]).args(dirs));
    parse(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

/// A mount with a file, a scrub, and a server that died.
fn used() -> Option<Bed> {
    let bed = Bed::with_a_file()?;
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    bed.end_server(Signal::KILL);
    fs::write(bed.on("other"), "text").unwrap();
    done(keepfs(["scrub", "start", "--wait"]).arg(bed.dir()));
    Some(bed)
}

#[test]
fn metrics_say_what_status_says() {
    let Some(bed) = used() else { return };
    let (dir, status) = (bed.dir(), bed.status());
    let now = metrics(&[&dir]);
    let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_f64).unwrap();
    for (metric, pointer) in [
        ("keepfs_pool_size_bytes", "/space/size_bytes"),
        ("keepfs_pool_used_bytes", "/space/used_bytes"),
        ("keepfs_pool_inodes", "/space/inodes"),
        ("keepfs_log_size_bytes", "/log/size_bytes"),
        ("keepfs_mount_start_time_seconds", "/mount/since_s"),
        ("keepfs_server_deaths_total", "/keeper/deaths"),
        ("keepfs_events_total", "/events"),
    ] {
        assert_eq!(now.one(metric, &[]), number(pointer), "{metric}");
    }
    assert_eq!(
        now.one("keepfs_arena_size_bytes", &[]),
        number("/arena/frames") * 4096.0
    );
    assert_eq!(now.one("keepfs_server_deaths_total", &[]), 1.0);
    assert_eq!(now.one("keepfs_pool_state", &[("state", "online")]), 1.0);
    assert_eq!(now.one("keepfs_pool_state", &[("state", "faulted")]), 0.0);
    assert_eq!(now.one("keepfs_device_errors_total", &[("kind", "read")]), 0.0);
    assert!(now.one("keepfs_device_written_bytes_total", &[("class", "plog")]) > 0.0);
    assert!(now.one("keepfs_requests_total", &[("operation", "create")]) > 0.0);
    assert!(now.one("keepfs_scrub_last_end_timestamp_seconds", &[]) >= number("/mount/since_s"));
    assert!(now.one("keepfs_scrub_looked_pages", &[("part", "data")]) > 0.0);
    let labels = &now.only("keepfs_pool_size_bytes").labels;
    assert_eq!(labels["pool"], status["id"].as_str().unwrap());
    assert_eq!(labels["dir"], dir.to_str().unwrap());
    // Without names it is among all that are mounted.
    let all = parse(&done(&mut keepfs(["metrics"]))).unwrap();
    assert_eq!(all.one("keepfs_up", &[("dir", dir.to_str().unwrap())]), 1.0);
}

#[test]
fn damage_is_counted_and_a_mount_that_is_not_there_is_down() {
    let Some(bed) = Bed::with_a_file() else { return };
    let dir = bed.dir();
    let words = ["scribble", "--kind", "data", "--path", "/dir/file"];
    done(Command::new("sync").arg("-f").arg(&dir));
    done(keepfs(["inject"]).arg(&dir).args(words));
    let scrubbed = bed::run(keepfs(["scrub", "start", "--rest", "--wait"]).arg(&dir));
    assert_eq!(scrubbed.status.code(), Some(3), "{scrubbed:?}");
    let elsewhere = bed.path("elsewhere");
    let now = metrics(&[&dir, &elsewhere]);
    assert_eq!(now.one("keepfs_damage_entries", &[("kind", "lost")]), 1.0);
    assert_eq!(now.one("keepfs_lost_files", &[]), 1.0);
    assert_eq!(now.one("keepfs_scrub_uncorrectable_pages", &[("part", "data")]), 1.0);
    assert_eq!(now.one("keepfs_device_errors_total", &[("kind", "checksum")]), 1.0);
    let of = |dir: &Path, state| {
        let dir = dir.to_str().unwrap();
        let is = now.one("keepfs_pool_state", &[("dir", dir), ("state", state)]);
        (now.one("keepfs_up", &[("dir", dir)]), is)
    };
    assert_eq!(of(&dir, "degraded"), (1.0, 1.0));
    assert_eq!(of(&elsewhere, "unknown"), (0.0, 1.0));
}

/// Each metric of the dashboard is one that is told; it needs no mount.
#[test]
fn the_dashboard_shows_what_is_told() {
    let told = metrics(&[Path::new("/nowhere")]).families;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit/grafana-dashboard.json");
    let dashboard: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let shown = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let shown = shown.map(|target| target["expr"].as_str().unwrap());
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let asked = variables.filter_map(|variable| variable["definition"].as_str());
    let mut used = BTreeSet::new();
    for text in shown.chain(asked) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names: Vec<&str> = words.filter(|word| word.starts_with("keepfs_")).collect();
        assert!(!names.is_empty(), "{text}");
        used.extend(names.into_iter().map(str::to_owned));
    }
    let unknown: Vec<&String> = used.difference(&told).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
}

/// promtool(1) of Prometheus itself finds nothing to complain of.
#[test]
fn promtool_takes_them() {
    let found = std::env::var_os("PROMTOOL").unwrap_or("promtool".into());
    if Command::new(&found).arg("--version").output().is_err() {
        bed::skipped("promtool");
        return;
    }
    let Some(bed) = used() else { return };
    let mut lint = Command::new(found);
    lint.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut lint = lint.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text = done(keepfs(["metrics"]).arg(bed.dir()));
    lint.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let told = lint.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success() && said.is_empty(), "{said}");
}

#[test]
fn a_textfile_is_whole_and_for_everybody() {
    let Some(bed) = Bed::mounted("") else { return };
    let folder = bed.path("collector");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("keepfs.prom");
    fs::write(&file, "old").unwrap();
    let write = |file: &Path| {
        let mut command = keepfs(["metrics", "--textfile"]);
        command.arg(file).arg(bed.dir());
        command
    };
    assert_eq!(done(&mut write(&file)), "");
    let now = parse(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(now.one("keepfs_up", &[]), 1.0);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    // A name that is taken by a directory: nothing is left of the try.
    fs::create_dir(folder.join("taken")).unwrap();
    let (code, said) = fails(&mut write(&folder.join("taken")));
    assert!(code == 1 && said.contains("cannot write"), "{said}");
    let names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// `keepfs metrics --listen`, which ends with the test.
struct Exporter {
    process: Child,
    address: String,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Exporter {
    fn start(dirs: &[&Path]) -> Exporter {
        let mut command = Command::new(KEEPFS);
        command
            .args(["metrics", "--listen", "0"])
            .args(dirs)
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("metrics at http://")
            .and_then(|rest| rest.strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        assert!(address.starts_with("127.0.0.1:"), "of this machine only: {address}");
        Exporter { process, address }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    fn ask(&self, request: &str) -> (String, String) {
        let mut client = self.connect();
        write!(client, "{request}\r\nHost: keepfs\r\n\r\n").unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{reply}"));
        (head.to_owned(), body.to_owned())
    }

    fn scrape(&self) -> Metrics {
        let (head, body) = self.ask("GET /metrics HTTP/1.1");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        parse(&body).unwrap()
    }
}

/// One sick mount costs its own figures, not the answer; and nobody who is slow to ask keeps others waiting.
#[test]
fn a_server_that_hangs_costs_its_own_figures() {
    let (Some(well), Some(sick)) = (Bed::mounted(""), Bed::mounted("")) else {
        return;
    };
    let exporter = Exporter::start(&[&well.dir(), &sick.dir()]);
    let up = |now: &Metrics, bed: &Bed| now.one("keepfs_up", &[("dir", bed.dir().to_str().unwrap())]);
    let now = exporter.scrape();
    assert_eq!((up(&now, &well), up(&now, &sick)), (1.0, 1.0));
    let server = sick.server();
    kill_process(server, Signal::STOP).unwrap();
    let _going_on = GoOn(server);
    let _silent: Vec<TcpStream> = (0..138).map(|_| exporter.connect()).collect();
    let asked = Instant::now();
    let now = exporter.scrape();
    assert_eq!((up(&now, &well), up(&now, &sick)), (1.0, 0.0));
    // The sick one costs two seconds and a half, those who say nothing none.
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    let dir = sick.dir();
    let unknown = [("dir", dir.to_str().unwrap()), ("state", "unknown")];
    assert_eq!(now.one("keepfs_pool_state", &unknown), 1.0);
    assert!(now.one("keepfs_pool_size_bytes", &[("dir", well.dir().to_str().unwrap())]) > 0.0);
    kill_process(server, Signal::CONT).unwrap();
    soon("the server answers again", || {
        (up(&exporter.scrape(), &sick) == 1.0).then_some(())
    });
    let (head, _) = exporter.ask("GET /other HTTP/1.1");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    let (head, _) = exporter.ask(&format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(9000)));
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
    let (code, said) = fails(keepfs(["metrics", "--listen", &exporter.address]).arg(well.dir()));
    assert!(
        code == 1 && said.contains("cannot serve metrics at 127.0.0.1:"),
        "{said}"
    );
}

/// A stopped server, which goes on when a test fails.
struct GoOn(Pid);

impl Drop for GoOn {
    fn drop(&mut self) {
        // Gone is as good.
        let _ = kill_process(self.0, Signal::CONT);
    }
}
