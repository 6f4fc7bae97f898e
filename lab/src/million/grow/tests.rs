//! Growth ends with as many files as were asked for, each where its number says.

use super::*;

#[test]
fn every_file_is_there_at_the_end() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sampler = Sampler::start();
    let pool = Pool::create(&dir.path().join("pool"), 32_768, 16).expect("a pool");
    let wishes = Wishes {
        files: 1500,
        dirs: 3,
        each: 100,
    };
    run(&pool, wishes, &sampler).expect("growth");
    for i in 0..1500 {
        let dir = pool.volume.lookup(Ino::ROOT, format!("grown{}", i % 3).as_bytes());
        let dir = dir.expect("the directory").attr.ino;
        pool.volume.lookup(dir, &name(i)).expect("the file");
    }
    pool.close(&sampler).expect("closed");
}
