//! The pool as the offline walk sees it.

use keepfs_check::{Finding, Image, Options, Report, walk};
use keepfs_format::PAGE;
use keepfs_media::{Device, PageNo};

/// A device that is walked.
struct Seen<'d>(&'d dyn Device);

impl Image for Seen<'_> {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; PAGE]) -> Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}

/// What the walk tells of the device as it is now.
pub fn check(device: &dyn Device) -> Report {
    check_with(device, &Options::default())
}

/// The same with options.
pub fn check_with(device: &dyn Device, options: &Options) -> Report {
    walk(&Seen(device), options)
}

/// Errors that it finds.
pub fn errors(device: &dyn Device) -> Vec<Finding> {
    check(device).errors().cloned().collect()
}
