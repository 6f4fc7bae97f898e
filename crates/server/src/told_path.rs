//! Paths in JSON, in answers and in messages (S-18.10): the text of one, and of one that is no UTF-8 its bytes beside it, in a field of
//! the same name with `_bytes` behind.

use keepfs_check::for_programs;
use serde::Serializer;
use serde::de::{Deserializer, Error};
use serde::ser::SerializeMap;
use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Whether the text alone tells it.
pub fn is_text(path: &Path) -> bool {
    path.to_str().is_some()
}

/// The text of one where there is no field beside it.
pub fn text(path: &Path) -> String {
    for_programs(path.as_os_str().as_bytes()).0
}

/// Adds a path to an answer, an object.
#[must_use]
pub fn with(mut answer: Value, name: &str, path: &Path) -> Value {
    let (text, bytes) = for_programs(path.as_os_str().as_bytes());
    answer[name] = text.into();
    if let Some(bytes) = bytes {
        answer[format!("{name}_bytes")] = bytes.into();
    }
    answer
}

fn write<S: Serializer>((name, bytes_name): (&str, &str), path: Option<&Path>, to: S) -> Result<S::Ok, S::Error> {
    let (text, bytes) = path.map(|path| for_programs(path.as_os_str().as_bytes())).unzip();
    let mut fields = to.serialize_map(None)?;
    fields.serialize_entry(name, &text)?;
    if let Some(bytes) = bytes.flatten() {
        fields.serialize_entry(bytes_name, &bytes)?;
    }
    fields.end()
}

fn read<E: Error>(text: Option<String>, bytes: Option<&str>) -> Result<Option<PathBuf>, E> {
    match (text, bytes) {
        (_, Some(digits)) => match of_digits(digits) {
            Some(bytes) => Ok(Some(OsString::from_vec(bytes).into())),
            None => Err(E::custom("the bytes of a path are not told in hexadecimal digits")),
        },
        (text, None) => Ok(text.map(PathBuf::from)),
    }
}

/// Bytes by hexadecimal digits.
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that [`digits`] tells; `None`: it is none of its texts.
pub fn of_digits(digits: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(digit(pair[0])? << 4 | digit(*pair.get(1)?)?).ok();
    digits.as_bytes().chunks(2).map(byte).collect()
}

/// A module for `#[serde(flatten, with = "...")]` of the path with this name, and one for a path that may lack.
macro_rules! told_as {
    ($module:ident, $name:literal, $bytes:literal) => {
        #[doc = concat!("For a path that is told as `", $name, "`.")]
        pub mod $module {
            use super::*;

            #[derive(serde::Deserialize)]
            struct Fields {
                #[serde(rename = $name, default)]
                text: Option<String>,
                #[serde(rename = $bytes, default)]
                bytes: Option<String>,
            }

            /// The path, and its bytes if they are no text.
            pub fn serialize<S: Serializer>(path: &impl AsRef<Path>, to: S) -> Result<S::Ok, S::Error> {
                write(($name, $bytes), Some(path.as_ref()), to)
            }

            /// What [`serialize`] told. Errors: there is none.
            pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
                maybe::deserialize(from)?.ok_or_else(|| D::Error::missing_field($name))
            }

            /// One that may lack: `null`.
            pub mod maybe {
                use super::*;

                /// As of one that does not.
                pub fn serialize<P: AsRef<Path>, S: Serializer>(path: &Option<P>, to: S) -> Result<S::Ok, S::Error> {
                    write(($name, $bytes), path.as_ref().map(AsRef::as_ref), to)
                }

                /// What [`serialize`] told; `None` if nothing is told.
                pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
                    let fields = <Fields as serde::Deserialize>::deserialize(from)?;
                    read(fields.text, fields.bytes.as_deref())
                }
            }
        }
    };
}

told_as!(pool, "pool", "pool_bytes");
told_as!(dir, "dir", "dir_bytes");
told_as!(undo_file, "undo_file", "undo_file_bytes");

#[cfg(test)]
mod tests;
