//! One hostile image in a line of text:
//! `base | structure | field | which | change | salt`, several of them joined by ` && `, or
//! `base | flips | fixed or raw | how many | salt` for random bits anywhere, or `base | shape | name | which`.

use super::anatomy::{Anatomy, Edit, Place};
use super::change::{Change, Dice};
use super::shapes;
use super::sites::{Site, Sites};
use super::tally::CONTROL;
use core::fmt;
use core::str::FromStr;
use keepfs_testkit::image::Image;

/// One field changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mutation {
    /// Structure.
    pub structure: String,
    /// Field of it.
    pub field: String,
    /// Which of them; counted around.
    pub which: usize,
    /// How.
    pub change: Change,
    /// For random changes.
    pub salt: u64,
}

/// What is done to a base image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Nothing: the control.
    Nothing,
    /// Fields change, checksums are made right.
    Fields(Vec<Mutation>),
    /// Nodes or records stand where they must not.
    Shape {
        /// Name.
        name: String,
        /// Which variant of it; counted around.
        which: usize,
    },
    /// Random bits change.
    Flips {
        /// Whether checksums are made right.
        fixed: bool,
        /// How many bits.
        count: usize,
        /// Which.
        salt: u64,
    },
}

/// A base image and what is done to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Name of the base image.
    pub base: String,
    /// What is done.
    pub deed: Deed,
}

/// A base image, ready for cases.
pub struct Subject {
    /// Taken apart.
    pub anatomy: Anatomy,
    /// What can be changed.
    pub sites: Sites,
}

impl Case {
    /// Structure and field of the row of the table that it counts in.
    pub fn row(&self) -> (String, String) {
        match &self.deed {
            Deed::Nothing => (CONTROL.into(), String::new()),
            Deed::Fields(list) if list.len() == 1 => (list[0].structure.clone(), list[0].field.clone()),
            Deed::Fields(_) => ("(several fields)".into(), String::new()),
            Deed::Shape { name, .. } => {
                let (of, what) = name.split_once(": ").unwrap_or((name, ""));
                (format!("(shape) {of}"), what.into())
            }
            Deed::Flips { fixed: true, .. } => ("(random bits)".into(), "checksums right".into()),
            Deed::Flips { fixed: false, .. } => ("(random bits)".into(), "checksums wrong".into()),
        }
    }

    /// Whether the offline check must find something in the image: what the log brings may lie over it.
    pub fn must_be_found(&self, subject: &Subject) -> bool {
        match &self.deed {
            Deed::Shape { name, .. } => subject.anatomy.groups.is_empty() && shapes::must_be_found(name),
            _ => false,
        }
    }

    /// The image. Errors: a field that the base does not have.
    pub fn image(&self, subject: &Subject) -> Result<Image, String> {
        match &self.deed {
            Deed::Nothing => Ok(subject.anatomy.image.clone()),
            Deed::Fields(list) => {
                let mut edits = Vec::new();
                for mutation in list {
                    mutation.edit(subject, &mut edits)?;
                }
                Ok(subject.anatomy.build(&edits, true))
            }
            Deed::Shape { name, which } => {
                let edits = shapes::edits(&subject.anatomy, name, *which)?;
                Ok(subject.anatomy.build(&edits, true))
            }
            Deed::Flips { fixed, count, salt } => Ok(flips(subject, *fixed, *count, *salt)),
        }
    }
}

impl Mutation {
    fn edit(&self, subject: &Subject, edits: &mut Vec<Edit>) -> Result<(), String> {
        let sites = subject.sites.by_name.iter();
        let found = sites
            .clone()
            .find(|((s, f), _)| *s == self.structure && *f == self.field)
            .map(|(_, list)| list);
        let sites = found.ok_or_else(|| format!("{} {}: the base has none", self.structure, self.field))?;
        let site: Site = sites[self.which % sites.len()];
        let content = subject.anatomy.content(site.place);
        let mut dice = Dice(self.salt);
        let aliens = subject.sites.aliens.of(site.field.sort);
        let len = site.field.width * site.field.repeat;
        let Some(old) = content.get(site.offset..(site.offset + len).min(content.len())) else {
            return Ok(());
        };
        let mut bytes = old.to_vec();
        for part in bytes.chunks_mut(site.field.width) {
            self.change.apply(part, aliens, &mut dice);
        }
        edits.push(Edit {
            place: site.place,
            offset: site.offset,
            bytes,
        });
        Ok(())
    }
}

/// Random bits of used pages or structures the other way.
fn flips(subject: &Subject, fixed: bool, count: usize, salt: u64) -> Image {
    let mut dice = Dice(salt);
    let anatomy = &subject.anatomy;
    let mut places = vec![Place::Superblock];
    if fixed {
        places.extend(anatomy.blocks.keys().map(|id| Place::Block(*id)));
        places.extend((0..anatomy.log.len()).map(Place::LogPage));
        places.extend((0..anatomy.groups.len()).map(Place::Group));
    } else {
        places.clear();
        anatomy.image.for_each(|page, _| places.push(Place::Raw(page.0)));
    }
    let mut edits = Vec::new();
    for _ in 0..count {
        let place = places[dice.below(places.len())];
        let content = anatomy.content(place);
        if content.is_empty() {
            continue;
        }
        // Most structures have their meaning at the begin.
        let reach = if dice.below(2) == 0 {
            content.len().min(512)
        } else {
            content.len()
        };
        let offset = dice.below(reach);
        edits.push(Edit {
            place,
            offset,
            bytes: vec![content[offset] ^ (1 << dice.below(8))],
        });
    }
    anatomy.build(&edits, fixed)
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.deed {
            Deed::Nothing => write!(f, "{} | nothing", self.base),
            Deed::Shape { name, which } => write!(f, "{} | shape | {name} | {which}", self.base),
            Deed::Flips { fixed, count, salt } => {
                let how = if *fixed { "fixed" } else { "raw" };
                write!(f, "{} | flips | {how} | {count} | {salt}", self.base)
            }
            Deed::Fields(list) => {
                write!(f, "{}", self.base)?;
                for (i, m) in list.iter().enumerate() {
                    let between = if i == 0 { " |" } else { " &&" };
                    write!(
                        f,
                        "{between} {} | {} | {} | {} | {}",
                        m.structure, m.field, m.which, m.change, m.salt
                    )?;
                }
                Ok(())
            }
        }
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word}: not a number"))
}

impl FromStr for Case {
    type Err = String;

    fn from_str(line: &str) -> Result<Case, String> {
        let (base, rest) = line.split_once(" | ").ok_or("no base image")?;
        let words: Vec<&str> = rest.split(" | ").map(str::trim).collect();
        let deed = match words[..] {
            ["nothing"] => Deed::Nothing,
            ["shape", name, which] => Deed::Shape {
                name: name.into(),
                which: number(which)?,
            },
            ["flips", how, count, salt] => Deed::Flips {
                fixed: how == "fixed",
                count: number(count)?,
                salt: number(salt)?,
            },
            _ => Deed::Fields(rest.split(" && ").map(mutation).collect::<Result<_, _>>()?),
        };
        Ok(Case {
            base: base.trim().into(),
            deed,
        })
    }
}

fn mutation(text: &str) -> Result<Mutation, String> {
    let words: Vec<&str> = text.split(" | ").map(str::trim).collect();
    let [structure, field, which, change, salt] = words[..] else {
        return Err(format!("{text}: not a mutation"));
    };
    Ok(Mutation {
        structure: structure.into(),
        field: field.into(),
        which: number(which)?,
        change: change.parse()?,
        salt: number(salt)?,
    })
}
