//! A view of Rust source that shows code only.

/// The text with every comment, string and character literal blanked out, line breaks kept, so that a search for
/// a word finds code and line numbers stay true.
pub fn code_only(text: &str) -> String {
    let mut scanner = Scanner {
        rest: text,
        code: String::with_capacity(text.len()),
    };
    while !scanner.rest.is_empty() {
        scanner.step();
    }
    scanner.code
}

struct Scanner<'a> {
    rest: &'a str,
    code: String,
}

impl Scanner<'_> {
    fn step(&mut self) {
        let rest = self.rest;
        if rest.starts_with("//") {
            self.blank(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.blank(block_comment(rest));
        } else if let Some(len) = self.raw_string() {
            self.blank(len);
        } else if rest.starts_with('"') {
            self.blank(string(rest));
        } else if rest.starts_with('\'') {
            match character(rest) {
                Some(len) => self.blank(len),
                None => self.keep(),
            }
        } else {
            self.keep();
        }
    }

    /// Length of a raw string that begins here (`r"`, `r#"`, `br"` …), unless the `r` ends an identifier.
    fn raw_string(&self) -> Option<usize> {
        let inside_word = self
            .code
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_');
        let body = self.rest.strip_prefix("br").or_else(|| self.rest.strip_prefix('r'))?;
        let hashes = body.len() - body.trim_start_matches('#').len();
        if inside_word || !body[hashes..].starts_with('"') {
            return None;
        }
        let close = format!("\"{}", "#".repeat(hashes));
        let start = self.rest.len() - body.len() + hashes + 1;
        let end = self.rest[start..]
            .find(&close)
            .map_or(self.rest.len(), |at| start + at + close.len());
        Some(end)
    }

    fn keep(&mut self) {
        let mut chars = self.rest.chars();
        self.code.extend(chars.next());
        self.rest = chars.as_str();
    }

    fn blank(&mut self, len: usize) {
        let (gone, rest) = self.rest.split_at(len);
        self.code
            .extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of a character literal; `None` if the quote begins a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    match chars.next()?.1 {
        '\\' => chars
            .next()
            .and_then(|(from, _)| text[from + 1..].find('\'').map(|at| from + at + 2)),
        _ => chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1),
    }
}

/// Lines (from 1) with the whole word `word`: not part of a longer identifier.
pub fn lines_with_word<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.lines()
        .enumerate()
        .filter(|(_, line)| has_word(line, word))
        .map(|(at, _)| at + 1)
}

/// Whether `line` holds `word`, not as a part of a longer identifier.
pub fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(part) && word.starts_with(part);
        let after = line[at + word.len()..].chars().next().is_some_and(part) && word.ends_with(part);
        !before && !after
    })
}

#[cfg(test)]
mod tests;
