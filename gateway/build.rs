//! Makes the table of the console's files: each as it is and compressed, under one name for all of
//! them, which changes with any. Needs neither network nor Node.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Types by the ends of names. Other files, such as licences, are not served.
const TYPES: [(&str, &str); 4] = [
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("svg", "image/svg+xml"),
];
/// Stands for the name of all files in the page.
const PLACEHOLDER: &str = "{version}";
/// Stands for all modules, which a browser would otherwise find one after the other.
const MODULES: &str = "{modules}";

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../console");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, String::new(), &mut files);
    files.sort();
    let contents = files.iter().map(|(name, _, file)| (name, read(file)));
    let version = contents.fold(FNV_OFFSET, |hash, (name, content)| {
        let length = content.len().to_le_bytes();
        let parts = [name.as_bytes(), &length, &content];
        parts.into_iter().fold(hash, fnv)
    });
    let version = format!("{version:016x}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut table = format!("pub const VERSION: &str = \"{version}\";\n");
    table.push_str("pub static ASSETS: &[Asset] = &[\n");
    for (number, (name, kind, file)) in files.iter().enumerate() {
        let mut content = read(file);
        if name == "index.html" {
            let text = String::from_utf8(content).expect("the page is text");
            assert!(text.contains(PLACEHOLDER), "the page names no version");
            let text = text.replace(MODULES, &preloads(&files));
            content = text.replace(PLACEHOLDER, &version).into_bytes();
        }
        let etag = format!("{:016x}", fnv(FNV_OFFSET, &content));
        let (plain, gzip) = (
            out.join(format!("{number}")),
            out.join(format!("{number}.gz")),
        );
        fs::write(&gzip, compressed(&content)).expect("OUT_DIR is writable");
        fs::write(&plain, content).expect("OUT_DIR is writable");
        writeln!(
            table,
            "    Asset {{ name: {name:?}, kind: {kind:?}, etag: \"W/\\\"{etag}\\\"\", \
             plain: include_bytes!({plain:?}), gzip: include_bytes!({gzip:?}) }},"
        )
        .expect("text can be written");
    }
    table.push_str("];\n");
    fs::write(out.join("console.rs"), table).expect("OUT_DIR is writable");
}

fn preloads(files: &[(String, &'static str, PathBuf)]) -> String {
    let modules = files.iter().filter(|(name, _, _)| name.ends_with(".js"));
    let links = modules.map(|(name, _, _)| {
        format!("<link rel=\"modulepreload\" href=\"/console/{PLACEHOLDER}/{name}\">")
    });
    links.collect::<Vec<_>>().join("\n")
}

fn collect(folder: &Path, prefix: String, files: &mut Vec<(String, &'static str, PathBuf)>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).expect("the console's folder is there");
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("names are plain");
        let (path, name) = (entry.path(), format!("{prefix}{name}"));
        if path.is_dir() {
            collect(&path, format!("{name}/"), files);
            continue;
        }
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        if let Some((_, kind)) = TYPES.iter().find(|(known, _)| *known == ending) {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push((name, kind, path));
        }
    }
}

fn read(file: &Path) -> Vec<u8> {
    fs::read(file).expect("the file can be read")
}

/// Without a time, so that the same sources make the same binary.
fn compressed(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Names a content. Nothing has to withstand forgers here: who can change the files can change
/// what they are compiled into.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(hash, step)
}
