//! `cargo xtask papers`: the experiments of the papers on their terms, as figures of the benchmark (`papers`).

const USAGE: &str = "usage: cargo xtask papers PAPER... | all | list
  --long        nine rounds instead of two
  and the options of `cargo xtask bench`";

/// Rounds of a run, and of a long one.
const ROUNDS: &str = "2";
const ROUNDS_LONG: &str = "9";

/// The arguments behind `cargo xtask papers` as those behind `cargo xtask bench`: each paper becomes its figures.
pub fn of_papers<'a>(args: &[&'a str]) -> Result<Vec<&'a str>, String> {
    let rounds = match args.contains(&"--long") {
        true => ROUNDS_LONG,
        false => ROUNDS,
    };
    let mut words = vec!["--rounds", rounds];
    let mut figures = 0;
    for arg in args.iter().filter(|arg| **arg != "--long") {
        let of_paper = crate::figures_of_paper(arg);
        figures += of_paper.len();
        match of_paper.is_empty() {
            true => words.push(arg),
            false => words.extend(of_paper),
        }
    }
    match (figures, args) {
        (0, ["list"]) => Ok(vec!["list"]),
        (0, _) => Err(format!("{USAGE}\npapers: {}", crate::papers::PAPERS.join(", "))),
        _ => Ok(words),
    }
}

#[cfg(test)]
mod tests;
