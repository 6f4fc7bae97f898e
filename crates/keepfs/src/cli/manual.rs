//! The manual pages in the language of man(1), made from what is kept: docs/man/*.md, and for a command that has no page of
//! its own what keepfs(8) says of it, with its options as `--help` knows them.

mod roff;

use super::args::Args;
use clap::{Command, CommandFactory};
use std::fmt::Write;

/// The pages that people write, by the file's name without `.md`.
const WRITTEN: &[(&str, &str)] = &[
    (GENERAL, include_str!("../../../../docs/man/keepfs.8.md")),
    ("keepfs-check.8", include_str!("../../../../docs/man/keepfs-check.8.md")),
    ("keepfs-hooks.8", include_str!("../../../../docs/man/keepfs-hooks.8.md")),
    (
        "keepfs-inject.8",
        include_str!("../../../../docs/man/keepfs-inject.8.md"),
    ),
    ("keepfs-scrub.8", include_str!("../../../../docs/man/keepfs-scrub.8.md")),
    ("mount.keepfs.8", include_str!("../../../../docs/man/mount.keepfs.8.md")),
];
/// The page that tells of all commands.
const GENERAL: &str = "keepfs.8";
/// Other names of pages.
const ALSO: &[(&str, &str)] = &[
    ("mkfs.keepfs.8", "keepfs-create.8"),
    ("fsck.keepfs.8", "keepfs-check.8"),
    ("keepfs-umount.8", "keepfs-unmount.8"),
    ("mount.fuse.keepfs.8", "mount.keepfs.8"),
    ("mount.fuseblk.keepfs.8", "mount.keepfs.8"),
];

/// A page of section 8.
pub struct Page {
    /// Its file's name.
    pub name: String,
    /// Its text.
    pub roff: String,
}

/// All pages.
pub fn pages() -> Vec<Page> {
    let written = WRITTEN.iter().map(|(name, text)| Page {
        name: (*name).into(),
        roff: roff::from_markdown(text),
    });
    let mut all = Args::command();
    all.build();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set());
    let own = commands
        .filter(|command| !is_written(&page_of(command)))
        .map(of_command);
    let also = ALSO.iter().map(|(name, page)| Page {
        name: (*name).into(),
        roff: format!(".so man8/{page}\n"),
    });
    written.chain(own).chain(also).collect()
}

fn page_of(command: &Command) -> String {
    format!("keepfs-{}.8", command.get_name())
}

fn is_written(page: &str) -> bool {
    WRITTEN.iter().any(|(name, _)| *name == page)
}

/// The page of one command: what [`GENERAL`] says of it, and its options.
fn of_command(command: &Command) -> Page {
    let name = command.get_name();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let general = WRITTEN
        .iter()
        .find(|(page, _)| *page == GENERAL)
        .map_or("", |(_, text)| text);
    let upper = name.to_uppercase();
    let mut text = format!(
        "# KEEPFS-{upper}(8)\n\n## NAME\n\nkeepfs-{name} - {}\n\n",
        uncapitalized(&about)
    );
    let (usage, says) = (synopsis(general, name), definition(general, name));
    // Writing to a string cannot fail.
    let _ = write!(text, "## SYNOPSIS\n\n{usage}\n\n## DESCRIPTION\n\n");
    text.push_str(if says.is_empty() { &about } else { &says });
    let mut page = roff::from_markdown(&text);
    let mut options = Vec::new();
    let made = clap_mangen::Man::new(command.clone()).render_options_section(&mut options);
    if made.is_ok() {
        page.push_str(&String::from_utf8_lossy(&options));
    }
    if let Some(more) = command.get_after_help() {
        page.push_str(".SH NOTES\n");
        page.push_str(&roff::as_it_stands(&more.to_string()));
    }
    page.push_str(".SH SEE ALSO\n\\fBkeepfs\\fR(8), \\fBmount.keepfs\\fR(8)\n");
    Page {
        name: page_of(command),
        roff: page,
    }
}

fn uncapitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// The lines of the synopsis that show a command.
fn synopsis(general: &str, name: &str) -> String {
    let lines = general.lines().filter(|line| {
        let words = line.strip_prefix("**keepfs ").and_then(|rest| rest.strip_prefix(name));
        words.is_some_and(|rest| rest.starts_with("**") || rest.starts_with(' '))
    });
    lines.collect::<Vec<_>>().join("\n").trim_end_matches('\\').to_owned()
}

/// What stands under a command in the list of commands, without its indent. Empty: nothing does.
fn definition(general: &str, name: &str) -> String {
    let head = format!("**{name}**");
    let mut lines = general.lines().skip_while(|line| !line.starts_with(&head));
    lines.next();
    let body = lines.take_while(|line| line.is_empty() || line.starts_with("    ") || line.starts_with(":   "));
    let plain: Vec<&str> = body.map(|line| line.get(4..).unwrap_or_default()).collect();
    plain.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests;
