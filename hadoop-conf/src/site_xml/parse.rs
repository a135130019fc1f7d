//! Parses one configuration file's text into properties, as `Configuration.Parser` of Hadoop 3.4.2
//! does.
//!
//! Elements are recognized by their local names, at any depth; unknown ones are ignored, but their
//! text inside a `name` or `value` is kept. The caller reads included files.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use super::error::SiteXmlError;

/// A property as written in a file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// Name of the property; may be empty, as Hadoop allows.
    pub(super) name: String,
    /// Value of the property; `None` for none or an empty one, as in Hadoop.
    pub(super) value: Option<String>,
    pub(super) is_final: bool,
    pub(super) file: Arc<Path>,
    /// Line at which the property ends, from 1.
    pub(super) line: usize,
}

/// Receiver of a file's properties and includes.
pub(super) trait Sink {
    /// Takes a property, in the order of the text.
    fn property(&mut self, item: Item) -> Result<(), SiteXmlError>;
    /// Takes an `include` of `href`; returns whether there was a file to include.
    fn include(&mut self, href: &str, line: usize) -> Result<bool, SiteXmlError>;
}

/// An open `include`. Its fallback counts only if the file was missing.
struct Include {
    href: String,
    missing: bool,
    fallback_seen: bool,
    fallback_open: bool,
}

#[derive(Default)]
struct Property {
    name: Option<String>,
    value: Option<String>,
    is_final: bool,
}

struct FileParser<'a> {
    text: &'a str,
    file: &'a Arc<Path>,
    /// Bytes in which line ends were counted, and the line they lead to, so that counting stays
    /// linear.
    counted: (usize, usize),
    property: Property,
    /// Text of the last `name`, `value` or `final` that began.
    token: String,
    includes: Vec<Include>,
    depth: usize,
    root_closed: bool,
}

/// Parses `text`, which was read from `file`, and passes its contents to `sink`.
pub(super) fn parse(text: &str, file: &Arc<Path>, sink: &mut dyn Sink) -> Result<(), SiteXmlError> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut parser = FileParser {
        text,
        file,
        counted: (0, 1),
        property: Property::default(),
        token: String::new(),
        includes: Vec::new(),
        depth: 0,
        root_closed: false,
    };
    loop {
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(source) => return Err(parser.syntax(to_offset(reader.error_position()), source)),
        };
        let offset = to_offset(reader.buffer_position());
        match event {
            Event::Start(tag) => parser.start(&tag, offset, sink)?,
            Event::End(tag) => parser.end(tag.local_name().as_ref(), offset, sink)?,
            Event::Empty(tag) => {
                parser.start(&tag, offset, sink)?;
                parser.end(tag.local_name().as_ref(), offset, sink)?;
            }
            Event::Text(text) => parser.text(text.xml10_content(), offset)?,
            Event::CData(text) => parser.text(text.xml10_content(), offset)?,
            Event::GeneralRef(reference) => parser.reference(&reference, offset)?,
            Event::DocType(_) => {
                let line = parser.line(offset);
                let file = parser.owned_file();
                return Err(SiteXmlError::DocumentType { file, line });
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => return parser.finish(),
        }
    }
}

/// Converts an offset; those in a text in memory always fit.
fn to_offset(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

impl FileParser<'_> {
    fn start(
        &mut self,
        tag: &BytesStart<'_>,
        offset: usize,
        sink: &mut dyn Sink,
    ) -> Result<(), SiteXmlError> {
        if self.root_closed {
            let line = self.line(offset);
            let file = self.owned_file();
            return Err(SiteXmlError::AfterEnd { file, line });
        }
        self.depth += 1;
        match tag.local_name().as_ref() {
            "property" => {
                self.property = Property::default();
                for (key, value) in self.attributes(tag, offset)? {
                    match key.as_str() {
                        "name" => self.property.name = Some(value),
                        "value" => self.property.value = Some(value),
                        "final" => self.property.is_final = value == "true",
                        _ => {}
                    }
                }
            }
            "name" | "value" | "final" => self.token.clear(),
            "include" => {
                let attributes = self.attributes(tag, offset)?;
                let href = attributes.into_iter().find(|(key, _)| key == "href");
                let href = href.map_or_else(String::new, |(_, href)| href);
                // A fallback that is not needed is ignored, and an empty href includes nothing.
                let missing = if href.is_empty() || self.skipping() {
                    false
                } else {
                    let line = self.line(offset);
                    !sink.include(&href, line)?
                };
                self.includes.push(Include {
                    href,
                    missing,
                    fallback_seen: false,
                    fallback_open: false,
                });
            }
            "fallback" => {
                if let Some(include) = self.includes.last_mut() {
                    include.fallback_seen = true;
                    include.fallback_open = true;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str, offset: usize, sink: &mut dyn Sink) -> Result<(), SiteXmlError> {
        match name {
            "name" if !self.token.is_empty() => {
                self.property.name = Some(self.token.trim().to_owned());
            }
            "value" if !self.token.is_empty() => {
                self.property.value = Some(std::mem::take(&mut self.token));
            }
            // Hadoop compares without trimming: ` true ` does not make a property final.
            "final" => self.property.is_final = self.token == "true",
            "property" => {
                let property = std::mem::take(&mut self.property);
                if let (Some(name), false) = (property.name, self.skipping()) {
                    let line = self.line(offset);
                    sink.property(Item {
                        name,
                        value: property.value.filter(|value| !value.is_empty()),
                        is_final: property.is_final,
                        file: Arc::clone(self.file),
                        line,
                    })?;
                }
            }
            "include" => {
                if let Some(include) = self.includes.pop()
                    && include.missing
                    && !include.fallback_seen
                {
                    return Err(SiteXmlError::IncludeMissing {
                        file: self.owned_file(),
                        line: self.line(offset),
                        href: include.href,
                    });
                }
            }
            "fallback" => {
                if let Some(include) = self.includes.last_mut() {
                    include.fallback_open = false;
                }
            }
            _ => {}
        }
        self.depth = self.depth.saturating_sub(1);
        self.root_closed = self.depth == 0;
        Ok(())
    }

    fn text(&mut self, text: Cow<'_, str>, offset: usize) -> Result<(), SiteXmlError> {
        if self.depth > 0 {
            self.token.push_str(&text);
            return Ok(());
        }
        if text.trim().is_empty() {
            return Ok(());
        }
        let line = self.line(offset);
        let file = self.owned_file();
        Err(if self.root_closed {
            SiteXmlError::AfterEnd { file, line }
        } else {
            SiteXmlError::TextOutside { file, line }
        })
    }

    fn reference(&mut self, reference: &BytesRef<'_>, offset: usize) -> Result<(), SiteXmlError> {
        let name = reference.xml10_content();
        let character = match reference.resolve_char_ref() {
            Ok(character) => character,
            Err(source) => return Err(self.syntax(offset, source)),
        };
        match (character, resolve_predefined_entity(&name)) {
            (Some(character), _) => {
                let mut buffer = [0; 4];
                self.text(Cow::Borrowed(character.encode_utf8(&mut buffer)), offset)
            }
            (None, Some(text)) => self.text(Cow::Borrowed(text), offset),
            (None, None) => Err(SiteXmlError::UnknownEntity {
                file: self.owned_file(),
                line: self.line(offset),
                // 64 characters cover any entity that a person would write.
                name: name.chars().take(64).collect(),
            }),
        }
    }

    fn finish(mut self) -> Result<(), SiteXmlError> {
        if self.root_closed {
            return Ok(());
        }
        let line = self.line(self.text.len());
        let file = self.owned_file();
        Err(SiteXmlError::Incomplete { file, line })
    }

    /// Returns whether the current element is in a fallback that is not needed.
    fn skipping(&self) -> bool {
        let mut includes = self.includes.iter();
        includes.any(|include| include.fallback_open && !include.missing)
    }

    fn attributes(
        &mut self,
        tag: &BytesStart<'_>,
        offset: usize,
    ) -> Result<Vec<(String, String)>, SiteXmlError> {
        let mut found = Vec::new();
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|source| self.syntax(offset, source.into()))?;
            let key = attribute.key.local_name().as_ref().to_owned();
            let value = attribute.normalized_value(XmlVersion::Explicit1_0);
            let value = value.map_err(|source| self.syntax(offset, source))?;
            found.push((key, value.into_owned()));
        }
        Ok(found)
    }

    fn syntax(&mut self, offset: usize, source: quick_xml::Error) -> SiteXmlError {
        let end = offset.min(self.text.len());
        let before = &self.text.as_bytes()[..end];
        let line_start = before
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        SiteXmlError::Syntax {
            file: self.owned_file(),
            line: self.line(offset),
            column: end - line_start + 1,
            source: Box::new(source),
        }
    }

    /// Returns the line of the byte before `offset`, so that a line's end belongs to it.
    fn line(&mut self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        let (counted, line) = self.counted;
        let newlines = |bytes: &[u8]| bytes.iter().filter(|b| **b == b'\n').count();
        let bytes = self.text.as_bytes();
        self.counted = if offset >= counted {
            (offset, line + newlines(&bytes[counted..offset]))
        } else {
            (offset, 1 + newlines(&bytes[..offset]))
        };
        self.counted.1
    }

    fn owned_file(&self) -> std::path::PathBuf {
        self.file.to_path_buf()
    }
}
