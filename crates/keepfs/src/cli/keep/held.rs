//! What a keeper holds: named, opaque bytes with open descriptors. A name that is put again is replaced as a whole.

use super::wire::Message;
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

/// See the head of the file.
#[derive(Debug, Default)]
pub struct Held(BTreeMap<String, Item>);

impl Held {
    /// Puts an item in the place of the one of this name.
    pub fn put(&mut self, name: &str, item: Item) {
        self.0.insert(name.to_owned(), item);
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

impl From<Message> for Item {
    fn from(message: Message) -> Item {
        Item {
            bytes: message.bytes,
            descriptors: message.descriptors,
        }
    }
}
