//! Reads the password of a server from the file of passwords (`PGPASSFILE`, `~/.pgpass`).
//!
//! It must never print a password.

use std::path::PathBuf;

use base::config::Environment;

/// The password of the first line of the file that is for this server.
pub(crate) fn password(
    environment: &Environment,
    host: &str,
    port: u16,
    database: &str,
    user: &str,
) -> Option<String> {
    let lines = std::fs::read_to_string(password_file(environment)?).ok()?;
    let of = [host.to_owned(), port.to_string(), database.to_owned(), user.to_owned()];
    lines.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [password] = fields.get(4..)? else { return None };
        let fits = fields.iter().zip(&of).all(|(field, value)| field == "*" || field == value);
        fits.then(|| password.clone())
    })
}

/// The fields of a line: parted by colons, of which a backslash escapes one.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let ends = character == ':' && fields.len() < 5;
        let next = if character == '\\' { characters.next() } else { Some(character) };
        match (ends, fields.last_mut(), next) {
            (true, ..) => fields.push(String::new()),
            (false, Some(field), Some(character)) => field.push(character),
            (false, ..) => {}
        }
    }
    fields
}

/// The file with passwords that the environment names, else the user's own.
fn password_file(environment: &Environment) -> Option<PathBuf> {
    let named = environment.get("PGPASSFILE").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(environment.get("HOME")?).join(".pgpass")))
}
