//! `inject run COUNT SEED DIR` puts faults into pools and writes down what it did (truth) and what they told (told);
//! `inject judge TOLD VERDICTS` sees only what was told; `inject matrix TRUTH VERDICTS` holds the two together and fails if a
//! verdict is wrong or damage was silent; `inject all COUNT [SEED]` runs the three, each as a program of its own, `inject all
//! COUNT --plant` with a wrong judgement planted, and fails if the matrix does not. `inject paper
//! M-1|M-2|M-11|M-23 [--long]` prints the table of a bar, in markdown, and fails if it is not met (`paper M-2 --each COUNT SEED`:
//! with so many writes of each code behind the door, with legal writes and without); `inject told BAR` prints its
//! counts for `cargo xtask papers`.

use keepfs_lab::inject::matrix::Matrix;
use keepfs_lab::inject::{self, judge, papers};
use std::path::Path;
use std::process::Command;

const USAGE: &str = "inject all COUNT [SEED | --plant] | run COUNT SEED DIR | judge TOLD VERDICTS | matrix TRUTH VERDICTS | paper \
                     M-1|M-2|M-11|M-23 [--long] | paper M-2 --each COUNT SEED | told BAR";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["run", count, seed, dir] => run(count, seed, Path::new(dir)),
        ["judge", told, verdicts] => judge(told, verdicts),
        ["matrix", truth, verdicts] => matrix(truth, verdicts),
        ["all", count, "--plant"] => planted(count),
        ["all", count] => all(count, "1"),
        ["all", count, seed] => all(count, seed),
        ["paper", "M-2", "--each", count, seed] => each(count, seed),
        ["paper", bar] => paper(bar, false),
        ["paper", bar, "--long"] => paper(bar, true),
        ["told", bar] => told(bar),
        _ => Err(USAGE.into()),
    };
    if let Err(error) = result {
        eprintln!("inject: {error}");
        std::process::exit(1);
    }
}

fn text(error: impl core::fmt::Display) -> String {
    error.to_string()
}

/// With a wrong judgement planted the matrix, or the table of M-23, must fail.
#[cfg(feature = "planted")]
fn planted(count: &str) -> Result<(), String> {
    use keepfs_store::planted::{Judging, plant_judging};
    hidden()?;
    for bug in Judging::ALL.iter().filter(|bug| **bug != Judging::KeyedIgnored) {
        plant_judging(Some(*bug));
        let lines = inject::run(count.parse().map_err(text)?, 1);
        plant_judging(None);
        let lines = lines?;
        let matrix = Matrix::of(&lines.truth, &judge::judge(&lines.told))?;
        let all = &matrix.all;
        println!(
            "{}: {} verdicts wrong, {} silent, {} wrong repairs of {}",
            bug.word(),
            all.wrong,
            all.silent,
            all.wrong_repairs,
            all.count
        );
        if matrix.is_good() {
            return Err(format!("{} is planted, and nobody noticed", bug.word()));
        }
    }
    Ok(())
}

/// Without the keyed sum, changes that were solved for must be seen to reach a superblock (M-23).
#[cfg(feature = "planted")]
fn hidden() -> Result<(), String> {
    use keepfs_store::planted::{Judging, plant_judging};
    plant_judging(Some(Judging::KeyedIgnored));
    let paper = papers::of("M-23", false);
    plant_judging(None);
    let paper = paper?;
    print!("{}:\n{}", Judging::KeyedIgnored.word(), paper.text);
    match paper.met {
        true => Err(format!(
            "{} is planted, and nobody noticed",
            Judging::KeyedIgnored.word()
        )),
        false => Ok(()),
    }
}

#[cfg(not(feature = "planted"))]
fn planted(_count: &str) -> Result<(), String> {
    Err("this build has no planted bugs; add --features planted".into())
}

fn run(count: &str, seed: &str, dir: &Path) -> Result<(), String> {
    let lines = inject::run(count.parse().map_err(text)?, seed.parse().map_err(text)?)?;
    std::fs::write(dir.join("truth"), lines.truth).map_err(text)?;
    std::fs::write(dir.join("told"), lines.told).map_err(text)
}

fn judge(told: &str, verdicts: &str) -> Result<(), String> {
    let told = std::fs::read_to_string(told).map_err(text)?;
    std::fs::write(verdicts, judge::judge(&told)).map_err(text)
}

fn matrix(truth: &str, verdicts: &str) -> Result<(), String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(text);
    let matrix = Matrix::of(&read(truth)?, &read(verdicts)?)?;
    println!("{}", matrix.text());
    matrix.complaints.iter().take(20).for_each(|line| println!("{line}"));
    let all = &matrix.all;
    println!(
        "{} injections: {} verdicts wrong, {} silent, {} wrong repairs",
        all.count, all.wrong, all.silent, all.wrong_repairs
    );
    match matrix.is_good() {
        true => Ok(()),
        false => Err("verdicts are wrong, or damage was silent".into()),
    }
}

fn paper(bar: &str, long: bool) -> Result<(), String> {
    shown(bar, papers::of(bar, long)?)
}

fn each(count: &str, seed: &str) -> Result<(), String> {
    let (count, seed) = (count.parse().map_err(text)?, seed.parse().map_err(text)?);
    shown("M-2", inject::targeted::of(count, seed)?)
}

fn shown(bar: &str, paper: papers::Paper) -> Result<(), String> {
    print!("{}", paper.text);
    match paper.met {
        true => Ok(()),
        false => Err(format!("{bar} is not met")),
    }
}

/// For `cargo xtask papers`, which holds it against the bar itself.
fn told(bar: &str) -> Result<(), String> {
    let paper = papers::of(bar, false)?;
    paper.told.iter().for_each(|told| println!("{}", told.json()));
    Ok(())
}

fn all(count: &str, seed: &str) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("keepfs-inject-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(text)?;
    let done = steps(&dir, count, seed);
    match &done {
        Ok(()) => std::fs::remove_dir_all(&dir).map_err(text)?,
        Err(_) => eprintln!("inject: what was done and told stays in {}", dir.display()),
    }
    done
}

fn steps(dir: &Path, count: &str, seed: &str) -> Result<(), String> {
    let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let steps = [
        vec!["run".to_owned(), count.to_owned(), seed.to_owned(), path("")],
        vec!["judge".to_owned(), path("told"), path("verdicts")],
        vec!["matrix".to_owned(), path("truth"), path("verdicts")],
    ];
    let program = std::env::current_exe().map_err(text)?;
    steps.iter().try_for_each(|step| {
        let status = Command::new(&program).args(step).status().map_err(text)?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("`{}` failed", step[0])),
        }
    })
}
