//! Shows how far a reader of a pool's device is, while it reads.

use indicatif::{ProgressBar, ProgressStyle};
use keepfs_check::Image;
use keepfs_server::image::DeviceImage;
use std::io::IsTerminal;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How often progress is shown on a terminal, and in lines.
const TICK: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(5);

/// Does `work` while another thread shows how many pages were read; `doing` is what it is called. Nothing is shown if `quiet`.
pub fn watched<T>(image: &DeviceImage, doing: &str, quiet: bool, work: impl FnOnce() -> T) -> T {
    if quiet {
        return work();
    }
    let (done, over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || match std::io::stderr().is_terminal() {
            true => show_bar(image, doing, &over),
            false => show_lines(image, doing, &over),
        });
        let result = work();
        drop(done);
        result
    })
}

fn show_bar(image: &DeviceImage, doing: &str, over: &mpsc::Receiver<()>) {
    let bar = ProgressBar::new_spinner();
    let template = format!("{{spinner}} {doing}: {{msg}}, {{elapsed}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    while over.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
        bar.set_message(how_far(image));
        bar.tick();
    }
    bar.finish_and_clear();
}

fn show_lines(image: &DeviceImage, doing: &str, over: &mpsc::Receiver<()>) {
    while over.recv_timeout(LINE) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!("{doing}: {}", how_far(image));
    }
}

/// What needs more than one look at a page reads more pages than there are.
fn how_far(image: &DeviceImage) -> String {
    let (read, all) = (image.pages_read(), image.pages());
    match read > all {
        true => format!("{read} pages read, some of the device's {all} more than once"),
        false => format!("{read} pages read (the device has {all})"),
    }
}
