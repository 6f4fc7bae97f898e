//! What a check says is to be done.

use super::*;

fn args() -> Check {
    Check {
        pool: "pool".into(),
        json: false,
        data: true,
        live: false,
        repair: false,
        dry_run: false,
        undo_file: None,
        undo: None,
    }
}

/// A repair changes no page of a file (S-21.3): where nothing else is wrong it is not what is to be done.
#[test]
fn no_repair_is_recommended_for_what_it_does_not_mend() {
    let args = args();
    let (ino, index, page) = (36, 7, 900);
    let said = |findings: &[Finding]| {
        let mut report = Report::default();
        report.generation = 9;
        report.findings = findings.to_vec();
        next(&args, &report)
    };
    let (tail, bad) = (Finding::DataTail { ino, index }, Finding::DataBad { ino, index, page });
    let of_tail = said(std::slice::from_ref(&tail));
    assert!(of_tail.contains("--reflink=never"), "{of_tail}");
    for findings in [vec![tail.clone()], vec![bad.clone()], vec![tail.clone(), bad]] {
        assert!(!said(&findings).contains("--repair"), "{}", said(&findings));
    }
    assert!(said(&[tail, Finding::RootMissing {}]).contains("--repair"));
}

/// What nobody can look up is not to be restored.
#[test]
fn no_backup_is_recommended_for_files_without_a_name() {
    let mut report = Report::default();
    report.generation = 9;
    report.counts.orphans = 1;
    report.findings = vec![Finding::DataBad {
        ino: 36,
        index: 7,
        page: 900,
    }];
    let said = next(&args(), &report);
    assert!(said.contains("without a name") && !said.contains("backup"), "{said}");
}

/// S-21.10: the superblock that is taken was closed, and a newer one is lost.
#[test]
fn a_pool_of_a_lost_superblock_is_not_called_closed() {
    let mut report = Report::default();
    (report.generation, report.clean) = (9, true);
    assert!(verdict(&report).contains("closed properly"), "{}", verdict(&report));
    report.findings = vec![Finding::SuperblockNewer {
        generation: 9,
        base: 10,
    }];
    let said = verdict(&report);
    assert!(
        said.contains("as of generation 9") && !said.contains("closed"),
        "{said}"
    );
}
