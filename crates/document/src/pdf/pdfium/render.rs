//! Draws pages as pictures, for text recognition.
#![allow(unsafe_code)]

use std::os::raw::{c_int, c_void};

use pdfium_render::prelude::FPDF_PAGE;

use super::{Document, Pdfium};
use crate::ocr::Picture;

/// Pixels per inch, which Tesseract is made for.
const RESOLUTION: f32 = 300.0;
/// Maximum number of pixels. A larger page has a lower resolution.
const MAX_PIXELS: f32 = 30_000_000.0;
const MIN_RESOLUTION: f32 = 70.0;
const POINTS_PER_INCH: f32 = 72.0;

// From fpdfview.h.
const BITMAP_GRAY: c_int = 1;
const ANNOTATIONS: c_int = 0x01;
const GRAYSCALE: c_int = 0x08;
const WHITE: u32 = 0xFFFF_FFFF;

impl Pdfium {
    /// Draws pages, counted from 0, and gives each to `f`, until it returns false. A page that
    /// cannot be drawn is `None`.
    pub(in crate::pdf) fn draw(
        self,
        bytes: &[u8],
        pages: &[usize],
        mut f: impl FnMut(usize, Option<Picture>) -> bool,
    ) {
        let Some(library) = self.library() else {
            return;
        };
        let Ok(document) = Document::open(&*library.0, bytes) else {
            return;
        };
        for page in pages {
            let picture = c_int::try_from(*page)
                .ok()
                .and_then(|index| document.draw(index));
            if !f(*page, picture) {
                return;
            }
        }
    }
}

impl Document<'_> {
    fn draw(&self, index: c_int) -> Option<Picture> {
        // SAFETY: an open document; any index is allowed. The page is closed below.
        let page = unsafe { self.pdfium.FPDF_LoadPage(self.handle, index) };
        if page.is_null() {
            return None;
        }
        let picture = self.draw_loaded(page);
        // SAFETY: nothing that belongs to the page is kept.
        unsafe { self.pdfium.FPDF_ClosePage(page) };
        picture
    }

    fn draw_loaded(&self, page: FPDF_PAGE) -> Option<Picture> {
        // SAFETY: an open page.
        let (width, height) = unsafe {
            (
                self.pdfium.FPDF_GetPageWidthF(page),
                self.pdfium.FPDF_GetPageHeightF(page),
            )
        };
        let area = width * height / (POINTS_PER_INCH * POINTS_PER_INCH);
        let resolution = RESOLUTION.min((MAX_PIXELS / area).sqrt());
        // NaN is in no range
        if !(MIN_RESOLUTION..=RESOLUTION).contains(&resolution) {
            return None;
        }
        let pixels = |points: f32| (points / POINTS_PER_INCH * resolution).round() as usize;
        let (width, height) = (pixels(width), pixels(height));
        if width == 0 || height == 0 {
            return None;
        }
        let mut picture = Picture {
            width,
            height,
            pixels: vec![0; width * height],
            resolution: resolution as u32,
        };
        let (w, h) = (c_int::try_from(width).ok()?, c_int::try_from(height).ok()?);
        // SAFETY: an open page, and pixels of the size that is passed, which outlive the bitmap.
        unsafe {
            let first = picture.pixels.as_mut_ptr().cast::<c_void>();
            let bitmap = self.pdfium.FPDFBitmap_CreateEx(w, h, BITMAP_GRAY, first, w);
            if bitmap.is_null() {
                return None;
            }
            self.pdfium
                .FPDFBitmap_FillRect(bitmap, 0, 0, w, h, WHITE.into());
            let flags = ANNOTATIONS | GRAYSCALE;
            self.pdfium
                .FPDF_RenderPageBitmap(bitmap, page, 0, 0, w, h, 0, flags);
            self.pdfium.FPDFBitmap_Destroy(bitmap);
        }
        Some(picture)
    }
}
