//! What a keeper holds: named, opaque bytes with open descriptors. A name that is put again is replaced as a whole. What a server
//! may put is a table of names and sizes: one that was taken over cannot make its keeper grow (decision 0530).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

/// Bytes and descriptors under one name.
#[derive(Debug, Default)]
pub struct Item {
    /// Opaque.
    pub bytes: Vec<u8>,
    /// In the order they were put in.
    pub descriptors: Vec<OwnedFd>,
}

impl Item {
    /// The same once more. Errors: no free descriptor.
    pub fn try_clone(&self) -> io::Result<Item> {
        let descriptors = self
            .descriptors
            .iter()
            .map(OwnedFd::try_clone)
            .collect::<Result<_, _>>()?;
        let bytes = self.bytes.clone();
        Ok(Item { bytes, descriptors })
    }
}

/// What a server may leave under one name.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The name.
    pub name: &'static str,
    /// Bytes at most.
    pub bytes: usize,
    /// Descriptors at most.
    pub descriptors: usize,
}

/// Whether `item` may be put under `name`. Errors: a sentence that says why not.
pub fn fits(rooms: &[Room], name: &str, item: &Item) -> Result<(), String> {
    let Some(room) = rooms.iter().find(|room| room.name == name) else {
        let begins: String = name.chars().take(32).collect();
        return Err(format!("nothing is kept under the name {begins:?}"));
    };
    let (bytes, descriptors) = (item.bytes.len(), item.descriptors.len());
    match bytes > room.bytes || descriptors > room.descriptors {
        true => Err(format!(
            "the {name} has {bytes} bytes and {descriptors} descriptors; {} and {} are kept",
            room.bytes, room.descriptors
        )),
        false => Ok(()),
    }
}

/// See the head of the file.
#[derive(Debug, Default)]
pub struct Held(BTreeMap<String, Item>);

impl Held {
    /// Puts an item in the place of the one of this name.
    pub fn put(&mut self, name: &str, item: Item) {
        self.0.insert(name.to_owned(), item);
    }

    /// As [`Held::put`], if that [`fits`]. Errors: a sentence that says why not; what was held under the name stays.
    pub fn put_within(&mut self, rooms: &[Room], name: &str, item: Item) -> Result<(), String> {
        fits(rooms, name, &item)?;
        self.put(name, item);
        Ok(())
    }

    /// An item.
    pub fn get(&self, name: &str) -> Option<&Item> {
        self.0.get(name)
    }

    /// Takes an item out.
    pub fn take(&mut self, name: &str) -> Option<Item> {
        self.0.remove(name)
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of it once more. Errors: no free descriptor.
    pub fn try_clone(&self) -> io::Result<Held> {
        let again = |(name, item): (&String, &Item)| Ok((name.clone(), item.try_clone()?));
        Ok(Held(self.0.iter().map(again).collect::<io::Result<_>>()?))
    }

    /// All items, by name.
    pub fn items(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.0.iter().map(|(name, item)| (name.as_str(), item))
    }
}

#[cfg(test)]
mod tests;
