//! What an installation brings: links, manual pages, completion.

use crate::bed::{self, Bed, KEEPFS, done, fails, keepfs, run};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything below a directory but directories, as paths from it.
fn below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path().strip_prefix(root).unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

fn install(root: &Path, more: &[&str]) -> Command {
    let mut command = keepfs(["install-links", "--root"]);
    command.arg(root).args(more);
    command
}

#[test]
fn an_installation_comes_and_goes_as_a_whole() {
    let bed = Bed::empty();
    for (prefix, sbin, zsh) in [
        ("/usr", "usr/sbin", "vendor-completions"),
        ("/usr/local", "sbin", "site-functions"),
    ] {
        let root = bed.path("root");
        let more = ["--prefix", prefix, "--program", "/opt/keepfs"];
        done(&mut install(&root, &more));
        let target = fs::read_link(root.join(sbin).join("mount.fuseblk.keepfs")).unwrap();
        assert_eq!(target, Path::new("/opt/keepfs"));
        let share = root.join(prefix.trim_start_matches('/')).join("share");
        for file in [
            "man/man8/keepfs.8",
            "man/man8/keepfs-create.8",
            "man/man8/fsck.keepfs.8",
            "bash-completion/completions/keepfs",
            &format!("zsh/{zsh}/_keepfs"),
            "fish/vendor_completions.d/keepfs.fish",
            "keepfs/grafana-dashboard.json",
        ] {
            assert!(fs::metadata(share.join(file)).unwrap().len() > 10, "{prefix}: {file}");
        }
        let lib = root.join(prefix.trim_start_matches('/')).join("lib");
        for (file, line) in [
            (
                "udev/rules.d/60-keepfs.rules",
                "\nIMPORT{program}=\"/opt/keepfs probe --udev $devnode\"\n",
            ),
            (
                "systemd/system/keepfs-scrub@.service",
                "\nExecStart=/opt/keepfs scrub start --wait %f\n",
            ),
            ("systemd/system/keepfs-scrub@.timer", "\nOnCalendar=monthly\n"),
            (
                "keepfs/hooks.d/mail",
                "\n[ -n \"${MAIL_TO:-}\" ] || none 'MAIL_TO is not set'\n",
            ),
            (
                "systemd/system/keepfs-hooks.service",
                "\nExecStart=/opt/keepfs hooks follow\n",
            ),
            (
                "systemd/system/keepfs-metrics.service",
                "\nExecStart=/opt/keepfs metrics --listen ${LISTEN}\n",
            ),
            (
                "systemd/system/keepfs-metrics-textfile.service",
                "\nExecStart=/opt/keepfs metrics --textfile ${TEXTFILE}\n",
            ),
            (
                "systemd/system/keepfs-metrics-textfile.timer",
                "\nOnUnitActiveSec=1min\n",
            ),
        ] {
            let text = fs::read_to_string(lib.join(file)).unwrap();
            assert!(text.contains(line), "{prefix}: {file}: {text}");
        }
        // What the identifier keepfs has in the journal are events of pools.
        for unit in fs::read_dir(lib.join("systemd/system")).unwrap() {
            let unit = unit.unwrap().path();
            let text = fs::read_to_string(&unit).unwrap();
            let name = unit.file_stem().unwrap().to_str().unwrap().trim_end_matches('@');
            let is_named = text.contains(&format!("\nSyslogIdentifier={name}\n"));
            assert!(is_named || unit.extension().unwrap() == "timer", "{unit:?}: {text}");
        }
        let mode = fs::metadata(lib.join("keepfs/hooks.d/mail"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o755, "a hook that root alone may write");
        let all = below(&root);
        done(&mut install(&root, &more));
        assert_eq!(below(&root), all, "a second time it replaces its own");
        done(&mut install(&root, &[&more[..], &["--remove"]].concat()));
        assert_eq!(below(&root), Vec::<PathBuf>::new());
        done(&mut install(&root, &[&more[..], &["--remove"]].concat()));
    }
}

#[test]
fn links_of_somebody_else_stay_and_nothing_is_done_by_halves() {
    let bed = Bed::empty();
    let folder = bed.path("sbin");
    fs::create_dir(&folder).unwrap();
    let foreign = folder.join("mount.fuseblk.keepfs");
    symlink("/bin/true", &foreign).unwrap();
    let folder = folder.to_str().unwrap();
    for more in [&[][..], &["--remove"]] {
        let (code, said) = fails(keepfs(["install-links", folder]).args(more));
        assert!(
            code == 1 && said.contains("mount.fuseblk.keepfs is a link to /bin/true"),
            "{said}"
        );
        assert_eq!(below(Path::new(folder)), [Path::new("mount.fuseblk.keepfs")]);
    }
    fs::remove_file(&foreign).unwrap();
    symlink("/gone/keepfs", &foreign).unwrap();
    let mut relative = keepfs(["install-links", "sbin"]);
    done(relative.current_dir(Path::new(folder).parent().unwrap()));
    assert_eq!(
        fs::read_link(&foreign).unwrap(),
        Path::new(KEEPFS),
        "one of a program that has moved"
    );
}

/// What an administrator has taken away by a link to /dev/null is not written through, nor made readable to root alone.
#[test]
fn what_is_masked_stays_masked() {
    let bed = Bed::empty();
    let root = bed.path("root");
    let folder = root.join("usr/lib/systemd/system");
    fs::create_dir_all(&folder).unwrap();
    symlink("/dev/null", folder.join("keepfs-hooks.service")).unwrap();
    let before = fs::metadata("/dev/null").unwrap().permissions();
    let said = done(&mut install(&root, &["--program", "/opt/keepfs", "--prefix", "/usr"]));
    assert!(
        said.contains("keepfs-hooks.service is a link to /dev/null and stays one"),
        "{said}"
    );
    let masked = fs::read_link(folder.join("keepfs-hooks.service")).unwrap();
    assert_eq!(masked, Path::new("/dev/null"));
    assert_eq!(fs::metadata("/dev/null").unwrap().permissions(), before);
}

/// Whatever is there under a name that an installation needs: it stays as it is, and nothing else is made or removed.
#[test]
fn files_of_somebody_else_stay_and_nothing_is_done_by_halves() {
    let bed = Bed::empty();
    let (root, outside) = (bed.path("root"), bed.path("outside"));
    let page = root.join("usr/share/man/man8/keepfs.8");
    let text = "a text of somebody else";
    let cases: [(&str, &dyn Fn()); 5] = [
        ("a file", &|| fs::write(&page, text).unwrap()),
        ("a link to", &|| symlink(&outside, &page).unwrap()),
        ("no file", &|| fs::create_dir(&page).unwrap()),
        ("no file", &|| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, &page, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
        ("a file", &|| fs::hard_link(&outside, &page).unwrap()),
    ];
    for (what, put) in cases {
        fs::create_dir_all(page.parent().unwrap()).unwrap();
        fs::write(&outside, text).unwrap();
        put();
        for more in [&[][..], &["--remove"]] {
            let words = [&["--program", "/opt/keepfs", "--prefix", "/usr"], more].concat();
            let (code, said) = fails(&mut install(&root, &words));
            assert!(code == 1 && said.contains(&format!("keepfs.8 is {what}")), "{said}");
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), text);
        let left = match what {
            "no file" if page.is_dir() => 0,
            _ => 1,
        };
        assert_eq!(below(&root).len(), left, "{what}");
        fs::remove_dir_all(&root).unwrap();
    }
}

/// What somebody changed in a file of an installation is not lost without a word, and not run any more.
#[test]
fn a_file_that_was_changed_is_kept() {
    let bed = Bed::empty();
    let root = bed.path("root");
    let words = ["--program", "/opt/keepfs", "--prefix", "/usr"];
    done(&mut install(&root, &words));
    let again = done(&mut install(&root, &words));
    assert!(!again.contains(".old"), "{again}");
    let hook = root.join("usr/lib/keepfs/hooks.d/mail");
    let own = fs::read_to_string(&hook).unwrap();
    let mut remove = words.to_vec();
    remove.push("--remove");
    for (more, kept) in [(&words[..], "mail.old"), (&words, "mail.old2"), (&remove, "mail.old3")] {
        let changed = format!("{own}# {kept}\n");
        fs::write(&hook, &changed).unwrap();
        let said = done(&mut install(&root, more));
        let told = format!("{} had another text, which is kept as {kept}\n", hook.display());
        assert!(said.contains(&told), "{said}");
        let kept = hook.with_file_name(kept);
        assert_eq!(fs::read_to_string(&kept).unwrap(), changed);
        assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(
            fs::read_to_string(&hook).ok(),
            (more.len() == words.len()).then(|| own.clone())
        );
    }
    assert_eq!(below(&root).len(), 3, "{:?}", below(&root));
}

/// A root is where links of an installation end, too: what they lead to outside is no part of it.
#[test]
fn an_installation_stays_below_its_root() {
    let bed = Bed::empty();
    let (root, outside) = (bed.path("root"), bed.path("outside"));
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(&root).unwrap();
    // As it will be there: an absolute link of the root leads below it.
    fs::create_dir_all(root.join(outside.strip_prefix("/").unwrap())).unwrap();
    symlink(&outside, root.join("sbin")).unwrap();
    symlink("../../../../../../../../../../..", root.join("up")).unwrap();
    for prefix in ["/usr/local", "/../../usr/local", "/up/usr/local"] {
        let words = ["--program", "/opt/keepfs", "--prefix", prefix];
        done(&mut install(&root, &words));
        assert_eq!(below(&outside), Vec::<PathBuf>::new());
        let made = root.join(outside.strip_prefix("/").unwrap());
        assert_eq!(below(&made).len(), 5);
        assert!(root.join("usr/local/share/man/man8/keepfs.8").exists());
        symlink("/opt/keepfs", outside.join("mount.keepfs")).unwrap();
        done(&mut install(&root, &[&words[..], &["--remove"]].concat()));
        assert_eq!(below(&outside).len(), 1, "it is not of this installation");
        fs::remove_file(outside.join("mount.keepfs")).unwrap();
        assert_eq!(below(&made), Vec::<PathBuf>::new());
    }
}

/// systemd(1) itself knows each setting of the units.
#[test]
fn systemd_takes_the_units() {
    let bed = Bed::empty();
    let root = bed.path("root");
    done(&mut install(&root, &["--program", KEEPFS, "--prefix", "/usr"]));
    let folder = root.join("usr/lib/systemd/system");
    let units = below(&folder).into_iter().map(|unit| {
        // A template is looked at as one of its units.
        let name = unit.to_str().unwrap().replace("@.", "@mnt.");
        fs::rename(folder.join(&unit), folder.join(&name)).unwrap();
        folder.join(name)
    });
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]).args(units);
    if verify.output().is_err() {
        bed::skipped("systemd-analyze");
        return;
    }
    let told = run(&mut verify);
    let said = String::from_utf8_lossy(&told.stderr);
    let of_ours: Vec<&str> = said.lines().filter(|line| line.contains("keepfs-")).collect();
    assert!(of_ours.is_empty(), "{said}");
}

/// groff(1) finds nothing to complain of, and what a reader sees has no remains of a markup.
#[test]
fn man_renders_each_page() {
    if !Path::new("/usr/bin/groff").exists() {
        bed::skipped("groff");
        return;
    }
    let bed = Bed::empty();
    let root = bed.path("root");
    done(&mut install(&root, &["--prefix", "/usr"]));
    let folder = root.join("usr/share/man/man8");
    for file in below(&folder) {
        let source = fs::read_to_string(folder.join(&file)).unwrap();
        if let Some(page) = source.strip_prefix(".so man8/") {
            assert!(folder.join(page.trim_end()).exists(), "{} -> {page}", file.display());
            continue;
        }
        let mut groff = Command::new("groff");
        groff
            .args(["-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=100n"])
            .arg(folder.join(&file));
        let output = run(&mut groff);
        let (shown, said) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success() && said.is_empty(), "{}: {said}", file.display());
        for part in ["NAME\n", "SYNOPSIS\n", "DESCRIPTION\n", "SEE ALSO\n"] {
            assert!(shown.contains(part), "{}: {part}{shown}", file.display());
        }
        assert!(
            !shown.contains("**") && !shown.contains("\\f"),
            "{}: {shown}",
            file.display()
        );
    }
}

/// What bash offers for the last word of a line, as readline cuts it.
fn tab(line: &str, words: &str, readline_word: &str) -> Vec<String> {
    let script = done(&mut keepfs(["completion", "bash"]));
    let words = words.replacen("keepfs", KEEPFS, 1);
    let press = format!(
        "{script}\nCOMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({words})\n\
         _keepfs keepfs '{readline_word}' x; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let offered = done(Command::new("bash").arg("-c").arg(press));
    offered.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_values_and_lists() {
    assert_eq!(tab("keepfs st", "keepfs st", "st"), ["status"]);
    let commands = tab("keepfs ", "keepfs ''", "");
    assert!(commands.contains(&"create".to_owned()), "{commands:?}");
    for hidden in ["serve", "keep", "attach", "detach"] {
        assert!(!commands.contains(&hidden.to_owned()), "{commands:?}");
    }
    assert_eq!(tab("keepfs ser", "keepfs ser", "ser"), [""]);
    assert_eq!(
        tab("keepfs create x --protect p", "keepfs create x --protect p", "p"),
        ["pcrc", "pq"]
    );
    // Bash cuts words at `=`.
    assert_eq!(
        tab(
            "keepfs mount p /m -o ro,guard=s",
            "keepfs mount p /m -o ro,guard = s",
            "s"
        ),
        ["sealed"]
    );
    assert_eq!(
        tab("keepfs mount p /m -o ro,gua", "keepfs mount p /m -o ro,gua", "ro,gua"),
        ["ro,guard="]
    );
    assert_eq!(
        tab("keepfs set /m protect=even", "keepfs set /m protect = even", "even"),
        ["evenodd256", "evenodd64"]
    );
    assert_eq!(
        tab(
            "keepfs inject /m scribble --kind in",
            "keepfs inject /m scribble --kind in",
            "in"
        ),
        ["inode"]
    );
    for shell in ["zsh", "fish"] {
        let ask = |words: &[&str]| {
            let mut asked = keepfs(["--", "keepfs"]);
            done(
                asked
                    .args(words)
                    .env("KEEPFS_COMPLETE", shell)
                    .env("_CLAP_COMPLETE_INDEX", words.len().to_string()),
            )
        };
        let offered = ask(&["create", "--protect", "pc"]);
        assert!(
            offered.starts_with("pcrc") && offered.lines().count() == 1,
            "{shell}: {offered}"
        );
        let offered = ask(&["mount", "x", "y", "-o", "ro,guard=s"]);
        assert!(offered.starts_with("ro,guard=sealed"), "{shell}: {offered}");
    }
}

/// What is said of a pool on a device, by whoever is asked.
#[test]
fn a_pool_on_a_device_is_known_by_label_and_uuid() {
    if !bed::possible() {
        return;
    }
    let bed = Bed::empty();
    let label = format!("kit {}", std::process::id());
    let backing = bed.path("device");
    fs::File::create(&backing).unwrap().set_len(64 << 20).unwrap();
    let device = done(Command::new("losetup").args(["--find", "--show"]).arg(&backing));
    let device = device.trim();
    let told = run(&mut keepfs(["create", device, "--label", &label]));
    let probed = run(&mut keepfs(["probe", device]));
    let line = String::from_utf8(probed.stdout).unwrap();
    let uuid = line
        .split("UUID=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default();
    let mut seen = Vec::new();
    let dir = bed.dir();
    let text = dir.to_str().unwrap();
    for source in [
        format!("LABEL={label}"),
        format!("UUID={uuid}"),
        format!("UUID={}", uuid.replace('-', "").to_uppercase()),
    ] {
        let mounted = run(&mut keepfs(["mount", &source, text]));
        let shown = run(Command::new("findmnt").args(["-n", "-o", "SOURCE", "-t", "fuseblk.keepfs", text]));
        run(&mut keepfs(["unmount", text]));
        seen.push((mounted, String::from_utf8(shown.stdout).unwrap()));
    }
    // Two that claim to be the same one.
    let copy = bed.path("copy");
    fs::copy(&backing, &copy).unwrap();
    let second = done(Command::new("losetup").args(["--find", "--show"]).arg(&copy));
    let (code, ambiguous) = fails(&mut keepfs(["mount", &format!("LABEL={label}"), text]));
    let all = run(&mut keepfs(["probe"]));
    // S-2.13: until one of them is another.
    let renewed = run(&mut keepfs(["set", "--new-id", second.trim()]));
    let mounted = run(&mut keepfs(["mount", &format!("UUID={uuid}"), text]));
    let in_use = run(&mut keepfs(["set", text, "--new-id"]));
    run(&mut keepfs(["unmount", text]));
    let checked = run(&mut keepfs(["check", "--data", second.trim()]));
    let other = run(&mut keepfs(["get", "-H", "-o", "value", "id", second.trim()]));
    for done in [&renewed, &mounted, &checked, &other] {
        assert!(done.status.success(), "{done:?}");
    }
    let (renewed, other) = (
        String::from_utf8_lossy(&renewed.stdout),
        String::from_utf8_lossy(&other.stdout),
    );
    assert_eq!(renewed, format!("{}: id={other}", second.trim()));
    assert!(
        other.trim() != uuid && other[..8] == uuid[..8] && other.trim().len() == 36,
        "{other}"
    );
    let in_use = String::from_utf8_lossy(&in_use.stderr);
    assert!(in_use.contains(&format!("it is mounted at {text}")), "{in_use}");
    done(Command::new("losetup").args(["-d", device, second.trim()]));
    assert!(told.status.success(), "{told:?}");
    assert!(
        line.contains(&format!("LABEL=\"{label}\"")) && uuid.len() == 36,
        "{line}"
    );
    for (mounted, source) in seen {
        assert!(mounted.status.success(), "{mounted:?}");
        assert_eq!(source.trim(), device);
    }
    assert!(
        code == 1 && ambiguous.contains(device) && ambiguous.contains(second.trim()),
        "{ambiguous}"
    );
    assert_eq!(String::from_utf8_lossy(&all.stdout).matches(uuid).count(), 2, "{all:?}");
    let (code, none) = fails(&mut keepfs(["mount", "LABEL=kit there is none", text]));
    assert!(
        code == 1 && none.contains("no block device holds a pool with LABEL=kit there is none"),
        "{none}"
    );
    let none = bed.path("none");
    fs::write(&none, vec![0; 1 << 20]).unwrap();
    assert_eq!(run(keepfs(["probe"]).arg(&none)).status.code(), Some(2));
}

/// S-2.2 as magic(5) has it.
#[test]
fn file_knows_a_pool() {
    if !Path::new("/usr/bin/file").exists() {
        bed::skipped("file(1)");
        return;
    }
    let bed = Bed::empty();
    let made = done(keepfs(["create", "--size", "64M", "--label", "pictures"]).arg(bed.pool()));
    let id = made
        .split("pool ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .unwrap();
    let magic = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit/magic");
    let told = done(Command::new("file").arg("-m").arg(magic).arg(bed.pool()));
    let wanted = "Keepfs pool, version 1, label \"pictures\", UUID ";
    let (_, rest) = told.split_once(wanted).unwrap_or_else(|| panic!("{told}"));
    let (uuid, pages) = rest.trim().split_once(", ").unwrap();
    assert_eq!((uuid, pages), (id, "16384 pages"), "{told}");
}
