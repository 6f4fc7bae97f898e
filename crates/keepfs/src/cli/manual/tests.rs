//! Pages are complete, and Markdown becomes roff.

use super::*;
use clap::CommandFactory;
use std::fs;
use std::path::Path;

fn page(name: &str) -> String {
    pages()
        .into_iter()
        .find(|page| page.name == name)
        .unwrap_or_else(|| panic!("{name}"))
        .roff
}

#[test]
fn each_page_that_is_written_and_each_command_is_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man");
    let written = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = pages().into_iter().map(|page| page.name).collect();
    for file in written {
        let file = file.into_string().unwrap();
        let name = file.strip_suffix(".md").unwrap_or_else(|| panic!("{file}")).to_owned();
        assert!(names.contains(&name), "{name}: name it in WRITTEN");
    }
    for command in Args::command().get_subcommands() {
        let name = format!("keepfs-{}.8", command.get_name());
        assert_eq!(names.contains(&name), !command.is_hide_set(), "{name}");
    }
    let mut once = names.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), names.len());
    for (also, page) in ALSO {
        assert!(names.contains(&(*page).to_owned()), "{also} -> {page}");
    }
}

/// Whoever adds a command tells of it where people look.
#[test]
fn the_general_page_tells_of_each_command() {
    let general = WRITTEN.iter().find(|(page, _)| *page == GENERAL).unwrap().1;
    for command in Args::command()
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
    {
        let name = command.get_name();
        assert!(
            !synopsis(general, name).is_empty(),
            "{name} is not in the synopsis of keepfs.8.md"
        );
        let said = name == "version" || is_written(&page_of(command)) || !definition(general, name).is_empty();
        assert!(said, "{name} has no paragraph in keepfs.8.md");
    }
}

#[test]
fn a_commands_page_has_its_synopsis_its_paragraph_and_its_options() {
    let salvage = page("keepfs-salvage.8");
    for part in [
        ".TH KEEPFS\\-SALVAGE 8",
        "keepfs\\-salvage \\- copy out of a pool",
        "\\fBkeepfs salvage\\fR \\fIPOOL\\fR \\fIDIR\\fR [\\fB\\-\\-json\\fR]",
        "must be empty or not exist",
        ".SH OPTIONS",
        "Answer in JSON",
        "\\fBkeepfs\\fR(8)",
    ] {
        assert!(salvage.contains(part), "{part}: {salvage}");
    }
    assert!(!salvage.contains("keepfs dump"), "{salvage}");
    assert!(page("keepfs-create.8").contains(".SH OPTIONS"));
    assert!(page("keepfs-completion.8").contains("/usr/share/bash"));
}

#[test]
fn markdown_becomes_roff() {
    let text = "# X(8)\n\n## A B\n\n**bold** *it* `co-de`\\\n.dot 'q' a\\\\b …\n\n    # code\n    .x\n\n\
                term **b**\n:   First.\n\n    Second.\n\nother\n:   Body\n\n## C\n\nEnd.\n\n- one\n- two\n";
    let wanted = ".TH X 8 \"\" \"keepfs 0.1.0\" \"System Administration\"\n.nr HY 0\n.nh\n.ad l\n.SH A B\n.PP\n\
                  \\fBbold\\fR \\fIit\\fR \\fBco\\-de\\fR\n.br\n\\&.dot \\(aqq\\(aq a\\(rsb \\[u2026]\n\
                  .PP\n.RS 4\n.EX\n# code\n\\&.x\n.EE\n.RE\n\
                  .TP\nterm \\fBb\\fR\nFirst.\n.IP\nSecond.\n.TP\nother\nBody\n.SH C\n.PP\nEnd.\n\
                  .IP \\(bu 2\none\n.IP \\(bu 2\ntwo\n";
    let wanted = wanted.replace("0.1.0", env!("CARGO_PKG_VERSION"));
    assert_eq!(roff::from_markdown(text), wanted);
}
