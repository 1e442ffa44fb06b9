//! Reads pages with PDFium, whose shared library is loaded at run time.
//!
//! PDFium returns the characters of a page in logical order with their positions. [`layout`]
//! arranges them.
//!
//! The library is C++ that reads untrusted bytes, so the process that uses it must be expendable.
//! It starts no threads, and only one thread may use it at a time. It opens no files: system fonts
//! are disabled.
#![allow(unsafe_code)]

mod forms;
mod pictures;
mod render;

use std::{
    f32::consts::FRAC_PI_2,
    os::raw::{c_int, c_ulong},
    path::Path,
    ptr,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use pdfium_render::prelude::{
    FPDF_DOCUMENT, FPDF_LIBRARY_CONFIG, FPDF_PAGE, FPDF_TEXTPAGE, FS_MATRIX, FS_RECTF,
    Pdfium as Binding, PdfiumLibraryBindings,
};

use super::{
    FileContents, OpenError,
    layout::{self, Frame, Glyph},
    pages::Page,
};

/// PDFium's library, loaded for the life of the process.
static LIBRARY: OnceLock<Result<Mutex<Library>, String>> = OnceLock::new();

struct Library(Box<dyn PdfiumLibraryBindings>);

/// Proof that the library is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Pdfium(());

impl Pdfium {
    /// Loads the library. A process has one: a second call returns the result of the first,
    /// whatever its path.
    ///
    /// # Errors
    /// The reason why the library cannot be loaded.
    pub fn load(path: &Path) -> Result<Self, String> {
        let loaded = LIBRARY.get_or_init(|| Library::load(path).map(Mutex::new));
        loaded.as_ref().map(|_| Self(())).map_err(Clone::clone)
    }

    /// Reads all pages.
    ///
    /// # Errors
    /// The reason why the file cannot be opened.
    pub(super) fn read(self, bytes: &[u8]) -> Result<FileContents, OpenError> {
        let library = self
            .library()
            .ok_or_else(|| OpenError::Malformed("PDFium is not loaded".into()))?;
        let document = Document::open(&*library.0, bytes)?;
        Ok(FileContents {
            pages: (0..document.page_count())
                .map(|i| document.page(i))
                .collect(),
            title: document.title(),
        })
    }

    fn library(self) -> Option<MutexGuard<'static, Library>> {
        let library = LIBRARY.get()?.as_ref().ok()?;
        Some(library.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Library {
    fn load(path: &Path) -> Result<Self, String> {
        let binding = Binding::bind_to_library(path)
            .map_err(|e| format!("could not load PDFium's library: {e:?}"))?;
        // An empty list of folders.
        let mut folders = [ptr::null()];
        let config = FPDF_LIBRARY_CONFIG {
            version: 2,
            m_pUserFontPaths: folders.as_mut_ptr(),
            m_pIsolate: ptr::null_mut(),
            m_v8EmbedderSlot: 0,
            m_pPlatform: ptr::null_mut(),
            m_RendererType: 0,
            m_FontLibraryType: 0,
            m_BrotliEnabled: 0,
            m_IsolatePerDocument: 0,
        };
        // SAFETY: called once, before any other function of the library, with a configuration that
        // outlives the call; the library keeps copies of the paths.
        unsafe { binding.FPDF_InitLibraryWithConfig(&raw const config) };
        Ok(Self(binding))
    }
}

type Functions = dyn PdfiumLibraryBindings;

/// An open document. It borrows its bytes, which PDFium reads while the document is open.
struct Document<'a> {
    pdfium: &'a Functions,
    handle: FPDF_DOCUMENT,
    _bytes: &'a [u8],
}

impl<'a> Document<'a> {
    /// Opens the file, with the empty password if it is encrypted.
    fn open(pdfium: &'a Functions, bytes: &'a [u8]) -> Result<Self, OpenError> {
        // Values of FPDF_GetLastError, from fpdfview.h.
        const PASSWORD: c_ulong = 4;
        const SECURITY: c_ulong = 5;
        // SAFETY: the bytes live as long as the document, by its lifetime.
        let handle = unsafe { pdfium.FPDF_LoadMemDocument64(bytes, None) };
        if !handle.is_null() {
            return Ok(Self {
                pdfium,
                handle,
                _bytes: bytes,
            });
        }
        // SAFETY: reads a number.
        Err(match unsafe { pdfium.FPDF_GetLastError() } {
            PASSWORD => OpenError::Locked,
            SECURITY => OpenError::UnknownSecurity,
            _ => OpenError::Malformed("its structure is damaged".into()),
        })
    }

    fn page_count(&self) -> c_int {
        // SAFETY: an open document.
        unsafe { self.pdfium.FPDF_GetPageCount(self.handle) }
    }

    fn title(&self) -> Option<String> {
        // SAFETY: the buffer has the size that is passed; without a buffer the function returns the
        // size.
        let units = filled(|buffer: *mut u16, bytes| unsafe {
            self.pdfium
                .FPDF_GetMetaText(self.handle, "Title", buffer.cast(), bytes)
        });
        // A NUL ends the text.
        Some(String::from_utf16_lossy(units.strip_suffix(&[0])?)).filter(|text| !text.is_empty())
    }

    fn page(&self, index: c_int) -> Page {
        // SAFETY: an open document; any index is allowed. The page is closed below.
        let handle = unsafe { self.pdfium.FPDF_LoadPage(self.handle, index) };
        if handle.is_null() {
            return Page::lost();
        }
        let forms::Filled {
            page: handle,
            typed,
        } = self.filled(handle, index);
        if handle.is_null() {
            return Page::lost();
        }
        let page = self.loaded(handle, typed);
        // SAFETY: nothing that belongs to the page is kept.
        unsafe { self.pdfium.FPDF_ClosePage(handle) };
        page
    }

    fn loaded(&self, page: FPDF_PAGE, typed: Vec<Glyph>) -> Page {
        // SAFETY: an open page. The page of text is closed below.
        let text = unsafe { self.pdfium.FPDFText_LoadPage(page) };
        if text.is_null() {
            return Page::lost();
        }
        let visible = self.bounds(page);
        let Characters { glyphs, unmapped } = self.characters(text, visible);
        // SAFETY: nothing that belongs to the page of text is used after this.
        unsafe { self.pdfium.FPDFText_ClosePage(text) };
        let pictures::Pictures { mut texts, drawn } = self.pictures(page, visible, &glyphs);
        texts.extend(typed);
        Page {
            drawn,
            unmapped,
            ..layout::page(glyphs, texts)
        }
    }

    /// Returns the visible part of the page.
    fn bounds(&self, page: FPDF_PAGE) -> Option<FS_RECTF> {
        let mut bounds = FS_RECTF {
            left: 0.0,
            top: 0.0,
            right: 0.0,
            bottom: 0.0,
        };
        // SAFETY: an open page, and a valid place for the result.
        (unsafe { self.pdfium.FPDF_GetPageBoundingBox(page, &raw mut bounds) } != 0)
            .then_some(bounds)
    }

    fn characters(&self, text: FPDF_TEXTPAGE, visible: Option<FS_RECTF>) -> Characters {
        let mut characters = Characters::default();
        // SAFETY: an open page of text.
        let count = unsafe { self.pdfium.FPDFText_CountChars(text) };
        let mut new_line = false;
        for index in 0..count {
            // SAFETY: an open page of text, and an index that is in it.
            let (code, generated) = unsafe {
                (
                    self.pdfium.FPDFText_GetUnicode(text, index),
                    self.pdfium.FPDFText_IsGenerated(text, index),
                )
            };
            if generated == 1 {
                new_line |= code == u32::from('\n');
                continue;
            }
            let Some(glyph) = self.glyph(text, index, code) else {
                continue;
            };
            let Some(c) = glyph.c else {
                characters.unmapped += 1;
                continue;
            };
            if visible.is_none_or(|bounds| shows(&bounds, glyph.x, glyph.y)) {
                let (object, new_line) = (glyph.object, std::mem::take(&mut new_line));
                characters.glyphs.push(Glyph {
                    c,
                    frame: glyph.frame,
                    size: glyph.size,
                    object,
                    new_line,
                });
            }
        }
        characters
    }

    fn glyph(&self, text: FPDF_TEXTPAGE, index: c_int, code: u32) -> Option<PdfCharacter> {
        let (mut x, mut y) = (0.0, 0.0);
        let mut matrix = FS_MATRIX {
            a: 1.0,
            b: 0.0,
            c: 0.0,
            d: 1.0,
            e: 0.0,
            f: 0.0,
        };
        let mut area = FS_RECTF {
            left: 0.0,
            top: 0.0,
            right: 0.0,
            bottom: 0.0,
        };
        // SAFETY: an open page of text, an index that is in it, and valid places for the results.
        let (size, object, unknown) = unsafe {
            self.pdfium
                .FPDFText_GetCharOrigin(text, index, &raw mut x, &raw mut y);
            self.pdfium.FPDFText_GetMatrix(text, index, &raw mut matrix);
            self.pdfium
                .FPDFText_GetLooseCharBox(text, index, &raw mut area);
            (
                self.pdfium.FPDFText_GetFontSize(text, index),
                self.pdfium.FPDFText_GetTextObject(text, index) as usize,
                self.pdfium.FPDFText_HasUnicodeMapError(text, index) == 1,
            )
        };
        let (x, y) = (x as f32, y as f32);
        let size = (size as f32 * matrix.c.hypot(matrix.d)).abs();
        if !(x.is_finite() && y.is_finite() && size.is_finite()) {
            return None;
        }
        let angle = matrix.b.atan2(matrix.a);
        let frame = Frame::of(x, y, angle, width(&area, angle, size));
        let c = match code {
            0 => None,
            // PDFium's codes for a hyphen at the end of a line.
            2 | 0xFFFE | 0xAD => Some('-'),
            _ if unknown => None,
            _ => char::from_u32(code),
        };
        Some(PdfCharacter {
            c,
            x,
            y,
            frame,
            size,
            object,
        })
    }
}

impl Drop for Document<'_> {
    fn drop(&mut self) {
        // SAFETY: an open document, all of whose pages are closed.
        unsafe { self.pdfium.FPDF_CloseDocument(self.handle) };
    }
}

#[derive(Default)]
struct Characters {
    glyphs: Vec<Glyph>,
    unmapped: usize,
}

struct PdfCharacter {
    /// `None` if the character cannot be identified.
    c: Option<char>,
    x: f32,
    y: f32,
    frame: Frame,
    size: f32,
    object: usize,
}

fn shows(bounds: &FS_RECTF, x: f32, y: f32) -> bool {
    /// How far outside the page a character may begin and still count as on it, in points.
    const MARGIN: f32 = 1.0;
    let within = |at: f32, a: f32, b: f32| at >= a.min(b) - MARGIN && at <= a.max(b) + MARGIN;
    within(x, bounds.left, bounds.right) && within(y, bounds.bottom, bounds.top)
}

/// Returns the width of a character along its direction. Its area is an upright rectangle around
/// it.
fn width(area: &FS_RECTF, angle: f32, size: f32) -> f32 {
    let (across, up) = (
        (area.right - area.left).abs(),
        (area.top - area.bottom).abs(),
    );
    let quarter = (angle / FRAC_PI_2).round() * FRAC_PI_2;
    if (angle - quarter).abs() < 0.01 {
        return if angle.cos().abs() > 0.5 { across } else { up };
    }
    let (sin, cos) = (angle.sin().abs(), angle.cos().abs());
    let difference = cos * cos - sin * sin;
    let solved = (across * cos - up * sin) / difference;
    if difference.abs() > 0.1 && solved > 0.0 {
        solved.min(2.0 * size)
    } else {
        size / 2.0
    }
}

/// Returns what a C function writes into a buffer. Given a null buffer, `fill` returns the size in
/// bytes.
fn filled<T: Copy + Default>(fill: impl Fn(*mut T, c_ulong) -> c_ulong) -> Vec<T> {
    const MAX_BYTES: usize = 1 << 16;
    let bytes = fill(ptr::null_mut(), 0);
    let mut buffer =
        vec![T::default(); usize::try_from(bytes).unwrap_or(0).div_ceil(size_of::<T>())];
    if buffer.is_empty() || buffer.len() > MAX_BYTES {
        return vec![];
    }
    fill(buffer.as_mut_ptr(), bytes);
    buffer
}

/// Decodes a text string of a PDF: UTF-16 or UTF-8 with a byte order mark, else ASCII as far as it
/// goes.
fn decoded(bytes: &[u8]) -> String {
    if let Some(pairs) = bytes.strip_prefix(b"\xFE\xFF") {
        let units: Vec<u16> = pairs
            .chunks_exact(2)
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
            .collect();
        return String::from_utf16_lossy(&units);
    }
    String::from_utf8_lossy(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)).into_owned()
}
