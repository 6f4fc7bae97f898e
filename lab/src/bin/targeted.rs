//! `targeted [--count N] [--seed N] [--tries N] [--guard NAME]`: strays at the very look (SPEC S-15.19 to S-15.21), then mutants that do not
//! compare there; `--one CODE STEP LOOK SEED`: one of them again. It needs the feature `planted`, and root.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("targeted: {why}");
            ExitCode::from(2)
        }
    }
}

#[cfg(not(feature = "planted"))]
fn run(_: &[String]) -> Result<bool, String> {
    Err("this build has no hook at its looks; add --features planted".into())
}

#[cfg(feature = "planted")]
use planted::run;

#[cfg(feature = "planted")]
mod planted {
    use keepfs_lab::args::value;
    use keepfs_lab::targeted::Subject;
    use keepfs_lab::targeted::campaign::{self, Aim, CODES, named};
    use keepfs_store::Guard;
    use keepfs_store::planted::Place;
    use std::collections::BTreeMap;
    use std::io::Write;

    /// Violations that are printed.
    const SHOWN: usize = 10;

    /// Characters of a reason that are printed.
    const REASON: usize = 160;

    fn shown(why: &str) -> String {
        why.lines().next().unwrap_or_default().chars().take(REASON).collect()
    }

    /// Tries of a bug that is planted by name: of one in ten or so it takes one byte of a line.
    const BY_NAME: u64 = 400;

    /// Functions in which no stray shows what is not compared, and why that is right.
    const BLIND: &[(&str, &str, &str)] = &[
        (
            "fs/src/xattr.rs",
            "write_node",
            "seldom: old bytes are only compared with new ones, and a stray must make them equal",
        ),
        (
            "store/src/txn.rs",
            "keep_earlier",
            "the earlier state of an object, which nobody compares yet (SPEC section 12)",
        ),
        (
            "store/src/txn/audited.rs",
            "line",
            "seldom: a bit that a change is compared with",
        ),
        (
            "store/src/txn/claims.rs",
            "look_for_numbers",
            "seldom: two looks, at bitmaps that are nearly empty",
        ),
    ];

    fn guard(args: &[String]) -> Result<Guard, String> {
        match args.iter().position(|arg| arg == "--guard").map(|at| args.get(at + 1)) {
            None => Ok(Guard::Alias),
            Some(word) => match word.map(String::as_str) {
                Some("alias") => Ok(Guard::Alias),
                Some("sealed") => Ok(Guard::Sealed),
                Some("pkey") => Ok(Guard::Pkey),
                Some("mprotect") => Ok(Guard::Mprotect),
                Some("off") => Ok(Guard::Off),
                _ => Err("--guard needs alias, sealed, pkey, mprotect or off".into()),
            },
        }
    }

    /// All of it; whether all promises were kept.
    pub fn run(args: &[String]) -> Result<bool, String> {
        let (count, seed) = (value(args, "--count", 3000)?, value(args, "--seed", 1)?);
        let tries = value(args, "--tries", 60)?;
        let guard = guard(args)?;
        let mut subjects = Vec::new();
        for code in CODES {
            let subject = Subject::new(code, guard)?;
            let aims = subject.looks()?;
            subjects.push((subject, aims));
        }
        if let Some(at) = args.iter().position(|arg| arg == "--one") {
            return one(&subjects, &args[at + 1..]);
        }
        table(&subjects[0]);
        let campaign = campaign::campaign(&subjects, count, seed);
        for (code, fates) in &campaign.fates {
            let [told, untold, refused, missed] = fates;
            println!("{code:8} {told:6} told {untold:6} untold {refused:6} EIO and told {missed:6} missed");
        }
        for (place, count) in &campaign.untold {
            println!("untold, and all right: {count} at {place}");
        }
        for why in campaign.violations.iter().take(SHOWN) {
            println!("VIOLATION {why}");
        }
        println!("{} strays, {} violations", campaign.strays, campaign.violations.len());
        let named = by_name(&subjects[0].0)?;
        let mutants = tries == 0 || mutants(&subjects[0], tries);
        Ok(campaign.violations.is_empty() && named && mutants)
    }

    fn one(subjects: &[(Subject, Vec<Aim>)], words: &[String]) -> Result<bool, String> {
        let [code, rest @ ..] = words else {
            return Err("--one CODE STEP LOOK SEED".into());
        };
        let numbers: Vec<u64> = rest.iter().filter_map(|word| word.parse().ok()).collect();
        let [step, look, seed] = numbers[..] else {
            return Err("--one CODE STEP LOOK SEED".into());
        };
        let is_code = |(subject, _): &&(Subject, Vec<Aim>)| subject.code.to_string() == *code;
        let (subject, aims) = subjects.iter().find(is_code).ok_or("no such code")?;
        let is_aim = |aim: &&Aim| (aim.step, aim.look) == (step as usize, look as usize);
        let aim = aims.iter().find(is_aim).ok_or("no such look")?;
        let fate = subject.strike(*aim, seed);
        println!("{fate:?}");
        Ok(fate.is_ok())
    }

    /// Looks of each step.
    fn table((subject, aims): &(Subject, Vec<Aim>)) {
        for (number, step) in subject.script.iter().enumerate() {
            let looks = aims.iter().filter(|aim| aim.step == number).count();
            println!("{number:3} {looks:6} looks  {step}");
        }
    }

    /// Bugs that are planted by name; whether all were noticed.
    fn by_name(subject: &Subject) -> Result<bool, String> {
        // What they do to themselves is told by the table.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let mut good = true;
        for bug in campaign::USES {
            let word = match campaign::by_name(subject, bug, BY_NAME)? {
                Some((strays, why)) => format!("noticed after {strays}: {}", shown(&why)),
                None => {
                    good = false;
                    "NOT NOTICED".into()
                }
            };
            println!("{:40} {word}", bug.word());
        }
        std::panic::set_hook(hook);
        Ok(good)
    }

    fn mutants((subject, aims): &(Subject, Vec<Aim>), tries: u64) -> bool {
        let mut places: BTreeMap<String, (Place, u64)> = BTreeMap::new();
        for aim in aims {
            places.entry(named(aim.place)).or_insert((aim.place, 0)).1 += 1;
        }
        // What a mutant does to itself is told by the table.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let mut good = true;
        for (name, (place, looks)) in &places {
            let noticed = campaign::mutant(subject, aims, place, tries);
            let function = campaign::function(place);
            let reason = BLIND
                .iter()
                .find(|(file, of, _)| name.starts_with(file) && function == *of);
            let word = match (&noticed, reason) {
                (Some((strays, why)), _) => {
                    format!("noticed after {strays}: {}", shown(why))
                }
                (None, Some((_, _, reason))) => format!("not noticed: {reason}"),
                (None, None) => {
                    good = false;
                    "NOT NOTICED".into()
                }
            };
            println!("{name:40} {looks:6} looks  {function}: {word}");
            // A mutant may end the process.
            let _flushed = std::io::stdout().flush();
        }
        std::panic::set_hook(hook);
        good
    }
}
