//! A program that serves a pool on a directory until its input ends: `mounting POOL DIR`.

use keepfs::{CreateOptions, Pool};
use std::error::Error;
use std::io::Read;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    keepfs::serve_if_asked();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [pool, dir] = &words[..] else {
        return Err("usage: mounting POOL DIR".into());
    };
    if !Path::new(pool).exists() {
        let size = Some(64 << 20);
        Pool::create(
            pool,
            &CreateOptions {
                size,
                ..CreateOptions::default()
            },
        )?;
    }
    let mount = Pool::mount(pool, dir, "noatime")?;
    std::fs::write(mount.dir().join("note"), "first light")?;
    println!("mounted at {}", mount.dir().display());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    mount.unmount()?; // everything is durable, and the pool is free
    Ok(())
}
