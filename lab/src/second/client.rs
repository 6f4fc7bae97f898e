//! A client: random operations in a directory of its own, each answer compared with what it must be.

use super::child::runs;
use super::wire::End;
use keepfs_vfs::Ino;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Longest file, bytes.
const FILE_MAX: u64 = 20_000;
/// Names that a directory may have.
const NAMES: u64 = 24;
/// Inodes without a name that are held at most.
const HELD_MAX: usize = 6;

/// Something that a name leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Node {
    ino: u64,
    kind: Kind,
    links: u64,
    data: Vec<u8>,
    /// Value of the one attribute.
    attribute: Option<String>,
    /// Lookups not given back.
    lookups: u64,
    /// It never had a name.
    nameless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    File,
    Dir,
    Symlink,
}

/// Random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// Less than `below`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below.max(1)
    }
}

/// Where the client's requests go: to whoever is the server now.
pub trait Line {
    /// The answer to a request, however many servers it takes. Errors: there will be none.
    fn ask(&mut self, words: &str) -> Result<String, String>;
}

/// A client and what it knows.
pub struct Client {
    random: Random,
    /// Its two directories.
    dirs: [u64; 2],
    names: BTreeMap<(usize, String), u64>,
    nodes: BTreeMap<u64, Node>,
    /// Operations so far.
    pub done: u64,
}

type Outcome = Result<(), String>;

impl Client {
    /// Makes its directories below the root.
    pub fn new(number: u64, seed: u64, line: &mut dyn Line) -> Result<Client, String> {
        let mut dirs = [0; 2];
        for (i, dir) in dirs.iter_mut().enumerate() {
            let entry = line.ask(&format!("mkdir {} c{number}-{i}", Ino::ROOT.0))?;
            *dir = entry_ino(&entry)?;
        }
        Ok(Client {
            random: Random(seed),
            dirs,
            names: BTreeMap::new(),
            nodes: BTreeMap::new(),
            done: 0,
        })
    }

    /// One operation. Errors: the answer is not what it must be.
    pub fn step(&mut self, line: &mut dyn Line) -> Outcome {
        self.done += 1;
        match self.random.below(23) {
            0..=3 => self.make(line),
            4 => self.tmpfile(line),
            5 | 6 => self.link(line),
            7..=9 => self.unlink(line),
            10..=12 => self.rename(line, "rename"),
            13 => self.rename(line, "exchange"),
            14..=16 => self.write(line),
            17 => self.truncate(line),
            18 => self.attribute(line),
            19 => self.forget(line),
            20 => self.look(line),
            21 => self.read_one(line),
            _ => match self.any(|node| node.kind == Kind::File) {
                Some(ino) => expect(line, &format!("fsync {ino}"), "ok "),
                None => Ok(()),
            },
        }
    }

    fn name(&mut self) -> (usize, String) {
        let dir = self.random.below(2) as usize;
        (dir, format!("n{}", self.random.below(NAMES)))
    }

    /// One of the inodes that are known and `wanted`.
    fn any(&mut self, wanted: impl Fn(&Node) -> bool) -> Option<u64> {
        let found: Vec<u64> = self.nodes.values().filter(|n| wanted(n)).map(|n| n.ino).collect();
        let at = self.random.below(found.len() as u64) as usize;
        found.get(at).copied()
    }

    fn make(&mut self, line: &mut dyn Line) -> Outcome {
        let (dir, name) = self.name();
        let (verb, kind, target) = match self.random.below(5) {
            0 => ("mkdir", Kind::Dir, ""),
            1 => ("symlink", Kind::Symlink, " to/somewhere"),
            _ => ("mknod", Kind::File, ""),
        };
        let words = format!("{verb} {} {name}{target}", self.dirs[dir]);
        if self.names.contains_key(&(dir, name.clone())) {
            return expect(line, &words, "err EEXIST");
        }
        let links = if kind == Kind::Dir { 2 } else { 1 };
        let ino = self.born(line, &words, kind, links)?;
        self.names.insert((dir, name), ino);
        Ok(())
    }

    fn tmpfile(&mut self, line: &mut dyn Line) -> Outcome {
        if self.nodes.values().filter(|n| n.links == 0).count() >= HELD_MAX {
            return Ok(());
        }
        let dir = self.dirs[self.random.below(2) as usize];
        let ino = self.born(line, &format!("tmpfile {dir}"), Kind::File, 0)?;
        self.node(ino)?.nameless = true;
        Ok(())
    }

    fn born(&mut self, line: &mut dyn Line, words: &str, kind: Kind, links: u64) -> Result<u64, String> {
        let answer = line.ask(words)?;
        let ino = entry_ino(&answer)?;
        if answer != format!("ok {ino} {links}") || self.nodes.contains_key(&ino) || self.dirs.contains(&ino) {
            return Err(format!("{words}: {answer}"));
        }
        let node = Node {
            ino,
            kind,
            links,
            data: Vec::new(),
            attribute: None,
            lookups: 1,
            nameless: false,
        };
        self.nodes.insert(ino, node);
        Ok(ino)
    }

    fn node(&mut self, ino: u64) -> Result<&mut Node, String> {
        self.nodes
            .get_mut(&ino)
            .ok_or_else(|| format!("inode {ino} is not known"))
    }

    fn link(&mut self, line: &mut dyn Line) -> Outcome {
        let (dir, name) = self.name();
        let Some(ino) = self.any(|node| node.kind != Kind::Dir && node.lookups > 0) else {
            return Ok(());
        };
        let words = format!("link {ino} {} {name}", self.dirs[dir]);
        let exists = self.names.contains_key(&(dir, name.clone()));
        let node = self.node(ino)?;
        let wanted = match () {
            () if exists => "err EEXIST".to_owned(),
            () if node.links == 0 && !node.nameless => "err ENOENT".to_owned(),
            () => format!("ok {ino} {}", node.links + 1),
        };
        expect(line, &words, &wanted)?;
        if wanted.starts_with("ok") {
            (node.links, node.nameless, node.lookups) = (node.links + 1, false, node.lookups + 1);
            self.names.insert((dir, name), ino);
        }
        Ok(())
    }

    /// A name is gone.
    fn drop_name(&mut self, place: &(usize, String)) -> Outcome {
        let Some(ino) = self.names.remove(place) else {
            return Ok(());
        };
        let node = self.node(ino)?;
        node.links = if node.kind == Kind::Dir { 0 } else { node.links - 1 };
        if node.links == 0 && node.lookups == 0 {
            self.nodes.remove(&ino);
        }
        Ok(())
    }

    fn unlink(&mut self, line: &mut dyn Line) -> Outcome {
        let place = self.name();
        let kind = self.names.get(&place).map(|ino| self.nodes[ino].kind);
        let verb = if kind == Some(Kind::Dir) { "rmdir" } else { "unlink" };
        let wanted = if kind.is_some() { "ok " } else { "err ENOENT" };
        expect(line, &format!("{verb} {} {}", self.dirs[place.0], place.1), wanted)?;
        self.drop_name(&place)
    }

    fn rename(&mut self, line: &mut dyn Line, verb: &str) -> Outcome {
        let (from, to) = (self.name(), self.name());
        let words = format!("{verb} {} {} {} {}", self.dirs[from.0], from.1, self.dirs[to.0], to.1);
        let (source, target) = (self.names.get(&from).copied(), self.names.get(&to).copied());
        let is_dir = |ino: Option<u64>| ino.map(|ino| self.nodes[&ino].kind == Kind::Dir);
        let wanted = match (is_dir(source), is_dir(target)) {
            (None, _) => "err ENOENT",
            (Some(_), None) if verb == "exchange" => "err ENOENT",
            (Some(true), Some(false)) if verb == "rename" => "err ENOTDIR",
            (Some(false), Some(true)) if verb == "rename" => "err EISDIR",
            _ => "ok ",
        };
        expect(line, &words, wanted)?;
        let (Some(source), true) = (source, wanted == "ok " && source != target) else {
            return Ok(());
        };
        if verb == "exchange" {
            self.names.extend(target.map(|target| (from, target)));
            self.names.insert(to, source);
            return Ok(());
        }
        self.drop_name(&to)?;
        self.names.remove(&from);
        self.names.insert(to, source);
        Ok(())
    }

    fn write(&mut self, line: &mut dyn Line) -> Outcome {
        let Some(ino) = self.any(|node| node.kind == Kind::File) else {
            return Ok(());
        };
        let (value, len) = (self.random.below(250) + 1, self.random.below(6000) + 1);
        let most = self.nodes[&ino].data.len() as u64;
        let offset = self.random.below((most + 500).min(FILE_MAX));
        expect(
            line,
            &format!("write {ino} {offset} {value} {len}"),
            &format!("ok {len}"),
        )?;
        let data = &mut self.node(ino)?.data;
        let (start, end) = (offset as usize, (offset + len) as usize);
        data.resize(data.len().max(end), 0);
        data[start..end].fill(value as u8);
        Ok(())
    }

    fn truncate(&mut self, line: &mut dyn Line) -> Outcome {
        let size = self.random.below(FILE_MAX);
        let Some(ino) = self.any(|node| node.kind == Kind::File) else {
            return Ok(());
        };
        expect(line, &format!("truncate {ino} {size}"), "ok ")?;
        self.node(ino)?.data.resize(size as usize, 0);
        Ok(())
    }

    fn attribute(&mut self, line: &mut dyn Line) -> Outcome {
        let value = format!("v{}", self.random.below(1000));
        let set = self.random.below(2) == 0;
        let Some(ino) = self.any(|node| node.kind == Kind::File) else {
            return Ok(());
        };
        let node = self.node(ino)?;
        match (set, node.attribute.is_some()) {
            (true, true) => expect(line, &format!("setxattr {ino} user.a {value}"), "err EEXIST"),
            (true, false) => {
                node.attribute = Some(value.clone());
                expect(line, &format!("setxattr {ino} user.a {value}"), "ok ")
            }
            (false, true) => {
                node.attribute = None;
                expect(line, &format!("removexattr {ino} user.a"), "ok ")
            }
            (false, false) => expect(line, &format!("removexattr {ino} user.a"), "err ENODATA"),
        }
    }

    fn forget(&mut self, line: &mut dyn Line) -> Outcome {
        let Some(ino) = self.any(|node| node.lookups > 0) else {
            return Ok(());
        };
        let count = self.nodes[&ino].lookups;
        expect(line, &format!("forget {ino} {count}"), "ok ")?;
        let node = self.node(ino)?;
        node.lookups = 0;
        if node.links == 0 {
            self.nodes.remove(&ino);
        }
        Ok(())
    }

    fn look(&mut self, line: &mut dyn Line) -> Outcome {
        let place = self.name();
        let words = format!("lookup {} {}", self.dirs[place.0], place.1);
        match self.names.get(&place).copied() {
            None => expect(line, &words, "err ENOENT"),
            Some(ino) => {
                let node = self.node(ino)?;
                node.lookups += 1;
                expect(line, &words, &format!("ok {ino} {}", node.links))
            }
        }
    }

    fn read_one(&mut self, line: &mut dyn Line) -> Outcome {
        match self.any(|node| node.kind == Kind::File) {
            Some(ino) => self.check_node(line, ino),
            None => Ok(()),
        }
    }

    fn check_node(&self, line: &mut dyn Line, ino: u64) -> Outcome {
        let node = &self.nodes[&ino];
        if node.kind != Kind::File {
            return Ok(());
        }
        expect(
            line,
            &format!("read {ino} {}", 2 * FILE_MAX),
            &format!("ok {}", runs(&node.data)),
        )?;
        let value = match &node.attribute {
            Some(value) => format!("ok {value}"),
            None => "err ENODATA".to_owned(),
        };
        expect(line, &format!("getxattr {ino} user.a"), &value)
    }

    /// Everything that the client knows is there, and nothing else.
    pub fn check(&self, line: &mut dyn Line) -> Outcome {
        for (i, dir) in self.dirs.into_iter().enumerate() {
            let mut wanted = String::from("ok");
            let here = self.names.iter().filter(|((at, _), _)| *at == i);
            let mut names: Vec<String> = here.map(|((_, name), ino)| format!("{name}={ino}")).collect();
            names.sort_unstable();
            for name in &names {
                let _ = write!(wanted, " {name}");
            }
            if names.is_empty() {
                wanted.push(' ');
            }
            expect(line, &format!("list {dir}"), &wanted)?;
        }
        self.nodes.keys().try_for_each(|ino| self.check_node(line, *ino))
    }

    /// Gives all lookups back.
    pub fn leave(&mut self, line: &mut dyn Line) -> Outcome {
        let held: Vec<(u64, u64)> = self.nodes.values().map(|n| (n.ino, n.lookups)).collect();
        let own = self.dirs.map(|dir| (dir, 1));
        for (ino, count) in held.into_iter().chain(own).filter(|(_, count)| *count > 0) {
            expect(line, &format!("forget {ino} {count}"), "ok ")?;
        }
        Ok(())
    }
}

fn expect(line: &mut dyn Line, words: &str, wanted: &str) -> Outcome {
    let answer = line.ask(words)?;
    match answer == wanted {
        true => Ok(()),
        false => Err(format!("{words}: {answer}, expected {wanted}")),
    }
}

fn entry_ino(answer: &str) -> Result<u64, String> {
    let ino = answer.strip_prefix("ok ").and_then(|rest| rest.split(' ').next());
    ino.and_then(|ino| ino.parse().ok())
        .ok_or_else(|| format!("no entry: {answer}"))
}

/// A conversation that a client has with one server.
pub fn ask_once(end: &End, words: &str) -> std::io::Result<String> {
    end.send(words, &[])?;
    end.receive().map(|(answer, _)| answer)
}
