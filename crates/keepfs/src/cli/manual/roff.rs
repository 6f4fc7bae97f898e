//! From Markdown, as docs/man/*.md have it, to roff(7) with the macros of man(7).

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::mem;

/// A page. Its first heading is its title, such as `KEEPFS(8)`; nothing of it is lost but links' targets.
pub fn from_markdown(text: &str) -> String {
    let mut page = Page::default();
    for event in Parser::new_ext(text, Options::ENABLE_DEFINITION_LIST) {
        page.take(event);
    }
    page.out
}

/// Lines that stay as they are, in a font of equal widths.
pub fn as_it_stands(text: &str) -> String {
    let lines = text.lines().map(|line| at_line_start(&escaped(line)) + "\n");
    format!(".EX\n{}.EE\n", lines.collect::<String>())
}

#[derive(Default)]
struct Page {
    out: String,
    /// The paragraph, heading or term that is being read.
    line: String,
    /// Bodies of definitions and items of lists around it.
    depth: u32,
    /// A term was written: the first paragraph after it needs no macro.
    after_term: bool,
    /// In a block of code.
    code: bool,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => self.line.push_str(&text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.line.push_str(&escaped(&text)),
            Event::Code(text) => self.line.push_str(&format!("\\fB{}\\fR", escaped(&text))),
            Event::SoftBreak => self.line.push('\n'),
            Event::HardBreak => self.line.push_str("\n.br\n"),
            // Not in the language that is read here.
            Event::Rule | Event::FootnoteReference(_) | Event::TaskListMarker(_) => {}
            Event::InlineMath(text) | Event::DisplayMath(text) => self.line.push_str(&escaped(&text)),
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Strong => self.line.push_str("\\fB"),
            Tag::Emphasis => self.line.push_str("\\fI"),
            Tag::DefinitionListDefinition => {
                self.depth += 1;
                self.after_term = true;
            }
            Tag::Item => {
                self.depth += 1;
                self.after_term = true;
                self.out.push_str(".IP \\(bu 2\n");
            }
            Tag::CodeBlock(CodeBlockKind::Indented | CodeBlockKind::Fenced(_)) => self.code = true,
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong | TagEnd::Emphasis => self.line.push_str("\\fR"),
            TagEnd::Heading(level) => self.heading(level),
            TagEnd::Paragraph => self.paragraph(),
            TagEnd::DefinitionListTitle => {
                let term = mem::take(&mut self.line).replace('\n', " ");
                self.out.push_str(&format!(".TP\n{}\n", at_line_start(&term)));
            }
            TagEnd::DefinitionListDefinition | TagEnd::Item => {
                // Of a tight list: its text stands in no paragraph.
                self.paragraph();
                self.depth -= 1;
                self.after_term = false;
            }
            TagEnd::CodeBlock => {
                let code = as_it_stands(&mem::take(&mut self.line));
                let before = if self.depth == 0 { ".PP\n" } else { ".IP\n" };
                self.out.push_str(&format!("{before}.RS 4\n{code}.RE\n"));
                (self.code, self.after_term) = (false, false);
            }
            _ => {}
        }
    }

    fn heading(&mut self, level: HeadingLevel) {
        let words = mem::take(&mut self.line);
        match level {
            HeadingLevel::H1 => {
                let (name, section) = words.split_once('(').unwrap_or((&words, "8)"));
                let (section, version) = (section.trim_end_matches(')'), env!("CARGO_PKG_VERSION"));
                let title = format!(".TH {name} {section} \"\" \"keepfs {version}\" \"System Administration\"\n");
                self.out.push_str(&title);
                // Names of options and paths are not cut, nor lines stretched.
                self.out.push_str(".nr HY 0\n.nh\n.ad l\n");
            }
            HeadingLevel::H2 => self.out.push_str(&format!(".SH {words}\n")),
            _ => self.out.push_str(&format!(".SS {words}\n")),
        }
    }

    fn paragraph(&mut self) {
        let words = mem::take(&mut self.line);
        if words.is_empty() {
            return;
        }
        match (self.depth, self.after_term) {
            (0, _) => self.out.push_str(".PP\n"),
            (_, true) => {}
            (_, false) => self.out.push_str(".IP\n"),
        }
        self.after_term = false;
        for line in words.lines() {
            let line = if line == ".br" {
                line.into()
            } else {
                at_line_start(line)
            };
            self.out.push_str(&line);
            self.out.push('\n');
        }
    }
}

/// Text as roff prints it. All dashes are those that are typed: what is copied from a page works.
fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' => plain.push_str("\\(rs"),
            '-' => plain.push_str("\\-"),
            '\'' => plain.push_str("\\(aq"),
            '`' => plain.push_str("\\(ga"),
            '^' => plain.push_str("\\(ha"),
            '~' => plain.push_str("\\(ti"),
            _ if letter.is_ascii() => plain.push(letter),
            _ => plain.push_str(&format!("\\[u{:04X}]", u32::from(letter))),
        }
    }
    plain
}

/// A dot at the beginning of a line would be a macro.
fn at_line_start(line: &str) -> String {
    match line.starts_with('.') {
        true => format!("\\&{line}"),
        false => line.into(),
    }
}
