//! Archives that the tools of the machine make, and what is expected of each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What an agent makes of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// A folder like Hadoop's and like GNU tar's or unzip's.
    Folder,
    /// The same, of an archive that goes on behind its end: Hadoop fails if the tar that it feeds
    /// has ended before it has written the rest.
    FolderOrBrokenPipe,
    /// The archive itself: Hadoop does not unpack it either.
    Unchanged,
    /// A refusal with this text, by Hadoop as well.
    Refused(&'static str),
    /// A refusal with this text of what Hadoop unpacks, for the reason that the table gives.
    RefusedHere(&'static str),
}

use Expected::{Folder, FolderOrBrokenPipe, Refused, RefusedHere, Unchanged};

/// An archive: the file's name, and the script that makes `$out` in the folder with the tree.
pub(super) struct Recipe {
    pub(super) name: &'static str,
    script: &'static str,
    pub(super) expected: Expected,
}

const fn recipe(name: &'static str, script: &'static str, expected: Expected) -> Recipe {
    Recipe {
        name,
        script,
        expected,
    }
}

/// Makes the tree in the working folder: in `all` what tools differ about, in `short` names that
/// every format has room for.
const TREE: &str = r#"
    mkdir -p all/dir/inner all/lib all/hollow short/bin
    cd all
    echo content > plain; : > empty; printf '#!/bin/sh\n' > run; chmod 755 run
    seq 1 60000 > lines; head -c 100000 /dev/urandom > noise
    echo deep > dir/inner/deep; echo umlaut > 'dir/ä name'; echo module > lib/module.py
    long=$(printf 'n%.0s' $(seq 120)); mkdir -p "$long/$long"; echo long > "$long/$long/$long"
    ln -s lib lib64; ln -s /usr/bin/python3 absolute; ln -s ../../outside up; ln -s nowhere dangling
    ln -s "/$long/$long" long-link; ln plain dir/hard; chmod 500 dir/inner/deep
    printf begin > holes; printf middle | dd of=holes bs=1 seek=1048576 conv=notrunc status=none
    printf end | dd of=holes bs=1 seek=3145728 conv=notrunc status=none; truncate -s 4000000 holes
    truncate -s 70000 hole
    for i in $(seq 0 39); do printf "x$i" | dd of=many bs=1 seek=$((i * 65536)) conv=notrunc status=none; done
    cd ..
    cp all/lines short/lines; cp all/run short/bin/run; ln -s ../lines short/bin/link; ln short/lines short/again
"#;

/// Archives of some forms, by each tool.
pub(super) const RECIPES: &[Recipe] = &[
    // GNU tar.
    recipe("gnu.tar", "tar --format=gnu -cf $out -C all .", Folder),
    recipe("pax.tar", "tar --format=pax -cf $out -C all .", Folder),
    recipe(
        "ustar.tar",
        "tar --format=ustar -cf $out -C short .",
        Folder,
    ),
    recipe("v7.tar", "tar --format=v7 -cf $out -C short .", Folder),
    recipe(
        "oldgnu.tar",
        "tar --format=oldgnu -cf $out -C all .",
        Folder,
    ),
    recipe(
        "sparse-gnu.tar",
        "tar -S --format=gnu -cf $out -C all .",
        Folder,
    ),
    recipe(
        "sparse-0.0.tar",
        "tar -S --format=pax --sparse-version=0.0 -cf $out -C all .",
        Folder,
    ),
    recipe(
        "sparse-0.1.tar",
        "tar -S --format=pax --sparse-version=0.1 -cf $out -C all .",
        Folder,
    ),
    recipe(
        "sparse-1.0.tar",
        "tar -S --format=pax --sparse-version=1.0 -cf $out -C all .",
        Folder,
    ),
    recipe(
        "incremental.tar",
        "tar --format=gnu -g list1 -cf $out -C all .",
        Folder,
    ),
    recipe(
        "incremental-pax.tar",
        "tar --format=pax -g list2 -cf $out -C all .",
        Folder,
    ),
    recipe(
        "label.tar",
        "tar --format=gnu -V label -cf $out -C all .",
        Folder,
    ),
    recipe(
        "label-pax.tar",
        "tar --format=pax -V label -cf $out -C all .",
        Folder,
    ),
    recipe("absolute.tar", "tar -P -cf $out $PWD/short", Folder),
    recipe(
        "extended.tar",
        "tar --format=pax --pax-option=comment=x,globexthdr.name=g -cf $out -C all .",
        Folder,
    ),
    recipe("zipped.tar.gz", "tar -czf $out -C all .", Folder),
    recipe(
        "members.tgz",
        "tar -cf t -C all .; (head -c 70000 t | gzip; tail -c +70001 t | gzip; echo more) > $out",
        Folder,
    ),
    recipe(
        "appended.tar",
        "tar -cf $out -C all plain; tar -rf $out -C short lines again; tar -rf $out -C all plain",
        Folder,
    ),
    recipe("unfilled.tar", "tar -b1 -cf $out -C short .", Folder),
    recipe(
        "behind.tar",
        "tar -cf $out -C short .; head -c 9000 all/noise >> $out",
        FolderOrBrokenPipe,
    ),
    recipe(
        "two.tar",
        "tar -cf $out -C short .; tar -cf t -C all plain; cat t >> $out",
        FolderOrBrokenPipe,
    ),
    recipe(
        "below-link.tar",
        "tar -cf $out -C all lib lib64; tar -rf $out --transform s,^dir,lib64/dir, -C all dir/inner",
        Folder,
    ),
    recipe(
        "hard-link.tar",
        "ln -f all/absolute all/dir/too 2>/dev/null || cp -P all/absolute all/dir/too; tar -cf $out -C all absolute dir; rm all/dir/too",
        Folder,
    ),
    // bsdtar, which macOS and Windows have.
    recipe("bsd.tar", "bsdtar --format=pax -cf $out -C all .", Folder),
    recipe(
        "bsd-gnu.tar",
        "bsdtar --format=gnutar -cf $out -C all .",
        Folder,
    ),
    recipe(
        "bsd-ustar.tgz",
        "bsdtar --format=ustar -czf $out -C short .",
        Folder,
    ),
    recipe(
        "bsd-v7.tar",
        "bsdtar --format=v7tar -cf $out -C short .",
        Folder,
    ),
    recipe(
        "bsd-dense.tar",
        "bsdtar --no-read-sparse --format=pax -cf $out -C all .",
        Folder,
    ),
    recipe("bsd.zip", "bsdtar --format=zip -cf $out -C all .", Folder),
    recipe(
        "bsd-stored.zip",
        "bsdtar --format=zip --options zip:compression=store -cf $out -C short .",
        Refused("it uses a descriptor behind its data"),
    ),
    // macOS writes attributes of files as files beside them.
    recipe(
        "apple.tar",
        "cp all/plain short/._lines; bsdtar -cf $out -C short .; rm short/._lines",
        Folder,
    ),
    // Python.
    recipe(
        "python-gnu.tar",
        "python3 -c 'import tarfile,sys; t=tarfile.open(sys.argv[1],\"w\",format=tarfile.GNU_FORMAT); t.add(\"all\",\".\")' $out",
        Folder,
    ),
    recipe(
        "python-pax.tar",
        "python3 -c 'import tarfile,sys; t=tarfile.open(sys.argv[1],\"w\",format=tarfile.PAX_FORMAT); t.add(\"all\",\".\"); t.close()' $out",
        Folder,
    ),
    recipe(
        "shutil.tar.gz",
        "python3 -c 'import shutil,sys; shutil.make_archive(sys.argv[1][:-7],\"gztar\",\"all\")' $out",
        Folder,
    ),
    recipe(
        "shutil.zip",
        "rm all/dangling; python3 -c 'import shutil,sys; shutil.make_archive(sys.argv[1][:-4],\"zip\",\"all\")' $out; ln -s nowhere all/dangling",
        Folder,
    ),
    recipe(
        "python-bzip2.zip",
        "cd short; python3 -c 'import zipfile,sys; z=zipfile.ZipFile(sys.argv[1],\"w\",zipfile.ZIP_BZIP2); z.write(\"lines\"); z.close()' $out",
        Folder,
    ),
    recipe(
        "windows.zip",
        "cd short; python3 -c 'import zipfile,sys; z=zipfile.ZipFile(sys.argv[1],\"w\",8); i=zipfile.ZipInfo(\"x\"); i.filename=\"dir\\\\inner\\\\lines\"; i.create_system=0; z.writestr(i,b\"1\"); i=zipfile.ZipInfo(\"y\"); i.filename=\"dir\\\\folder\\\\\"; i.create_system=0; z.writestr(i,b\"\"); z.close()' $out",
        Folder,
    ),
    recipe(
        "appended.zip",
        "cd short; python3 -W ignore -c 'import zipfile,sys\nfor a in \"wa\":\n z=zipfile.ZipFile(sys.argv[1],a); z.writestr(\"same\",a); z.writestr(a,a); z.close()' $out",
        Folder,
    ),
    // Info-ZIP.
    recipe("info.zip", "cd all; zip -qr $out .", Folder),
    recipe("info-stored.zip", "cd short; zip -qr0 $out .", Folder),
    recipe("info-bzip2.zip", "cd short; zip -qrZ bzip2 $out .", Folder),
    recipe("info-links.zip", "cd all; zip -qry $out .", Folder),
    recipe(
        "info-stream.zip",
        "cd all; zip -qr - . | cat > $out",
        Refused("entry \"empty\": it uses a descriptor behind its data"),
    ),
    recipe("info-zip64.zip", "cd short; zip -qr -fz $out .", Folder),
    recipe(
        "info-stdin.zip",
        "cd all; zip -q -fz- - - < lines | cat > $out",
        Folder,
    ),
    recipe(
        "self-extracting.zip",
        "cd short; zip -qr t.zip .; (echo '#!/bin/sh'; cat t.zip) > $out; rm t.zip",
        Folder,
    ),
    // 7-Zip.
    recipe("seven.zip", "cd all; 7z a -bd $out . > /dev/null", Folder),
    recipe(
        "seven-deflate64.zip",
        "cd all; 7z a -bd -mm=Deflate64 $out lines dir > /dev/null",
        Folder,
    ),
    recipe(
        "seven-bzip2.zip",
        "cd all; 7z a -bd -mm=BZip2 $out lines dir > /dev/null",
        Folder,
    ),
    recipe(
        "seven-utf8.zip",
        "cd all; 7z a -bd -mcu=on $out lines dir > /dev/null",
        Folder,
    ),
    recipe("seven.tar", "cd short; 7z a -bd $out . > /dev/null", Folder),
    // Java.
    recipe("plain.jar", "jar --create --file $out -C short .", Folder),
    recipe(
        "stored.jar",
        "jar --create --no-compress --no-manifest --file $out -C short bin -C short lines",
        Folder,
    ),
    recipe("jar.zip", "jar --create --file $out -C short .", Folder),
    // Not unpacked.
    recipe(
        "bzip2.tar.bz2",
        "python3 -c 'import shutil,sys; shutil.make_archive(sys.argv[1][:-8],\"bztar\",\"short\")' $out",
        Unchanged,
    ),
    recipe(
        "xz.tar.xz",
        "python3 -c 'import shutil,sys; shutil.make_archive(sys.argv[1][:-7],\"xztar\",\"short\")' $out",
        Unchanged,
    ),
    recipe(
        "seven.7z",
        "cd short; 7z a -bd $out . > /dev/null",
        Unchanged,
    ),
    // Refused.
    recipe(
        "encrypted.zip",
        "cd short; zip -qrP secret $out .",
        Refused("it uses encryption"),
    ),
    recipe(
        "aes.zip",
        "cd short; 7z a -bd -psecret -mem=AES256 $out lines > /dev/null",
        Refused("it uses encryption"),
    ),
    recipe(
        "lzma.zip",
        "cd short; 7z a -bd -mm=LZMA $out lines > /dev/null",
        Refused("entry \"lines\": it uses the compression method 14 (LZMA)"),
    ),
    recipe(
        "ppmd.zip",
        "cd short; 7z a -bd -mm=PPMd $out lines > /dev/null",
        Refused("it uses the compression method 98 (PPMd)"),
    ),
    recipe(
        "volume2.tar",
        "yes n | head -9 | tar -M -L 200 -cf t1 -f $out -f t3 -C all lines > /dev/null 2>&1 || true",
        Refused("it is continued from another volume"),
    ),
    recipe(
        "volume1.tar",
        "yes n | head -9 | tar -M -L 200 -cf $out -f t2 -f t3 -C all lines > /dev/null 2>&1 || true",
        Refused("cannot be read"),
    ),
    recipe(
        "split.zip",
        "cd all; zip -qr -s 64k ../parts.zip noise; cp ../parts.z01 $out",
        Refused("several parts"),
    ),
    recipe(
        "climbs.tar",
        "cd short; tar -P -cf $out ../all/plain",
        Refused("entry \"../all/plain\": its name leaves the folder"),
    ),
    recipe(
        "cut.tgz",
        "tar -czf t -C all .; head -c 60000 t > $out",
        Refused("cannot be read"),
    ),
    recipe(
        "not-zipped.tgz",
        "tar -cf $out -C short .",
        Refused("cannot be read"),
    ),
    recipe(
        "zipped.tar",
        "tar -czf $out -C short .",
        Refused("cannot be read"),
    ),
    recipe("noise.zip", "cp all/noise $out", Refused("cannot be read")),
    // GNU tar makes a pipe or a device, which could hold up whoever reads the cache.
    recipe(
        "pipe.tar",
        "mkfifo pipe; tar -cf $out pipe; rm pipe",
        RefusedHere("entry \"pipe\": it is neither file, folder nor link"),
    ),
    recipe(
        "cut.zip",
        "cd short; zip -q t.zip lines; head -c -60 t.zip > $out; rm t.zip",
        Refused("cannot be read"),
    ),
];

/// Makes the tree and all archives in a folder, and returns their paths in the order of the table.
pub(super) fn make_all(folder: &Path) -> Vec<PathBuf> {
    let (work, archives) = (folder.join("work"), folder.join("archives"));
    for folder in [&work, &archives] {
        fs::create_dir(folder).unwrap();
    }
    run(TREE, &work, Path::new(""));
    let made = RECIPES.iter().map(|recipe| {
        let out = archives.join(recipe.name);
        run(recipe.script, &work, &out);
        assert!(out.is_file(), "{} was not made", recipe.name);
        out
    });
    made.collect()
}

#[track_caller]
fn run(script: &str, folder: &Path, out: &Path) {
    let output = Command::new("bash")
        .args(["-euc", script])
        .current_dir(folder)
        .env("out", out)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {errors}");
}
