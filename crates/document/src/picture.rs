//! Pictures (`.png`, `.jpg`, `.tiff`), whose text Tesseract recognizes.
//!
//! A TIFF file may have several pages. Photographs are turned as their camera held them. A picture
//! without text is no document: neither is one in which Tesseract only guesses.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, imageops::FilterType};
use rag_protocol::ingest::Stage;

use crate::{
    DocumentError, DocumentErrorKind, ExtractedDocument, PdfReader, Structure,
    ocr::Picture,
    pdf::{PAGE_BREAK, RECOGNIZE, recognition::Visit},
    title,
};

/// Maximum number of pages of a file.
const MAX_PAGES: usize = 1000;
/// Maximum number of pixels that are recognized at once. A larger picture is made smaller.
const MAX_PIXELS: u64 = 30_000_000;
/// The number of pixels of the longer side, up to which a picture is made twice as large: the text
/// of a screen is smaller than that of a scan.
const SMALL: u32 = 1600;
/// Maximum memory for decoding a picture, in bytes.
const MAX_MEMORY: u64 = 512 << 20;
/// Pixels per inch of a scan.
const RESOLUTION: u32 = 300;
/// The mean confidence below which a picture counts as one without text, in percent.
const MIN_CONFIDENCE: usize = 50;
/// The number of letters below which it does.
const MIN_LETTERS: usize = 8;

pub fn extract(
    bytes: &[u8],
    name: &str,
    reader: &PdfReader,
) -> Result<ExtractedDocument, DocumentError> {
    let format = image::guess_format(bytes).map_err(|e| malformed(&e))?;
    let pages = pages(bytes, format);
    let mut problem = None;
    let draw = |visit: &mut Visit| {
        for (n, page) in pages.iter().enumerate() {
            let picture = picture(bytes, *page, format);
            let picture = picture.map_err(|error| problem = Some(error)).ok();
            if !visit(n, picture) {
                return;
            }
        }
    };
    let Some((texts, recognition)) = reader.read_pictures(pages.len(), draw) else {
        let message = "the text of the picture was not recognized";
        return Err(DocumentError {
            kind: DocumentErrorKind::Scan,
            ..DocumentError::new(Stage::Extract, message).hint(RECOGNIZE)
        });
    };
    let text = texts.join(PAGE_BREAK);
    let letters = text.chars().filter(|sign| sign.is_alphanumeric()).count();
    if letters < MIN_LETTERS || recognition.confidence() < MIN_CONFIDENCE {
        return Err(match (problem, recognition.late.is_empty()) {
            (Some(problem), _) => problem,
            (None, true) => DocumentError::empty(),
            (None, false) => {
                let message = "recognizing the text of the picture took too long";
                DocumentError::new(Stage::Extract, message).hint("Raise rag.ocr_timeout.")
            }
        });
    }
    let title = title::from_name(name);
    let mut extracted = ExtractedDocument::new(text, title, Structure::Pages);
    extracted.note_recognition(&recognition, pages.len());
    Ok(extracted)
}

fn malformed(why: &dyn std::fmt::Display) -> DocumentError {
    let why: String = why.to_string().chars().take(200).collect();
    let message = format!(
        "the picture is malformed: {}",
        why.replace('\0', "\u{FFFD}")
    );
    DocumentError::new(Stage::Extract, message)
        .hint("Open the file with a viewer, save it again, and replace the file with the result.")
}

/// Returns the gray picture of a page.
fn picture(bytes: &[u8], page: Option<u32>, format: ImageFormat) -> Result<Picture, DocumentError> {
    let of_page = page.map(|page| tiff_page(bytes, page));
    let bytes = of_page.as_deref().unwrap_or(bytes);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|e| malformed(&e))?;
    if decoder.total_bytes() > MAX_MEMORY {
        return Err(malformed(&"it has too many pixels"));
    }
    let orientation = decoder.orientation().map_err(|e| malformed(&e))?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(|e| malformed(&e))?;
    image.apply_orientation(orientation);
    let image = on_white(&image);
    let (width, height) = (image.width(), image.height());
    let pixels = u64::from(width) * u64::from(height);
    let image = if pixels > MAX_PIXELS {
        let factor = (MAX_PIXELS as f64 / pixels as f64).sqrt();
        let smaller = |side: u32| (f64::from(side) * factor).floor().max(1.0) as u32;
        image::imageops::thumbnail(&image, smaller(width), smaller(height))
    } else if width.max(height) < SMALL {
        image::imageops::resize(&image, 2 * width, 2 * height, FilterType::CatmullRom)
    } else {
        image
    };
    Ok(Picture {
        width: image.width() as usize,
        height: image.height() as usize,
        pixels: image.into_raw(),
        resolution: RESOLUTION,
    })
}

/// Returns a picture in gray, with white behind what is transparent.
fn on_white(image: &DynamicImage) -> image::GrayImage {
    if !image.color().has_alpha() {
        return image.to_luma8();
    }
    let pixels = image.to_luma_alpha8();
    image::GrayImage::from_fn(pixels.width(), pixels.height(), |x, y| {
        let [gray, alpha] = pixels.get_pixel(x, y).0.map(u32::from);
        let seen = (gray * alpha + 255 * (255 - alpha)) / 255;
        image::Luma([seen as u8])
    })
}

/// Returns the places of the pages of a TIFF file. Another file has one page without a place.
fn pages(bytes: &[u8], format: ImageFormat) -> Vec<Option<u32>> {
    const ENTRY: u64 = 12;
    let mut pages = vec![];
    if format == ImageFormat::Tiff {
        let mut next = u32_at(bytes, 4);
        while let Some(page) = next.filter(|page| *page != 0)
            && !pages.contains(&Some(page))
            && pages.len() < MAX_PAGES
        {
            pages.push(Some(page));
            next = u16_at(bytes, page.into()).and_then(|entries| {
                u32_at(bytes, u64::from(page) + 2 + ENTRY * u64::from(entries))
            });
        }
    }
    if pages.is_empty() {
        pages.push(None);
    }
    pages
}

/// Returns the file with this page as its first.
fn tiff_page(bytes: &[u8], page: u32) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let place = match is_little(bytes) {
        true => page.to_le_bytes(),
        false => page.to_be_bytes(),
    };
    if let Some(first) = file.get_mut(4..8) {
        first.copy_from_slice(&place);
    }
    file
}

fn is_little(bytes: &[u8]) -> bool {
    bytes.starts_with(b"II")
}

fn u16_at(bytes: &[u8], at: u64) -> Option<u16> {
    let at = usize::try_from(at).ok()?;
    let value = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
    Some(match is_little(bytes) {
        true => u16::from_le_bytes(value),
        false => u16::from_be_bytes(value),
    })
}

fn u32_at(bytes: &[u8], at: u64) -> Option<u32> {
    let at = usize::try_from(at).ok()?;
    let value = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(match is_little(bytes) {
        true => u32::from_le_bytes(value),
        false => u32::from_be_bytes(value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(vec![]);
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn pictures_are_gray_on_white_and_large_enough() {
        let clear = DynamicImage::ImageRgba8(image::RgbaImage::from_fn(30, 20, |x, _| {
            image::Rgba([0, 0, 0, if x < 10 { 255 } else { 0 }])
        }));
        let bytes = encoded(&clear, ImageFormat::Png);
        let picture = picture(&bytes, None, ImageFormat::Png).unwrap();
        assert_eq!((picture.width, picture.height), (60, 40));
        assert_eq!((picture.pixels[0], picture.pixels[59]), (0, 255));
        let large = DynamicImage::ImageLuma8(image::GrayImage::new(8000, 6000));
        let bytes = encoded(&large, ImageFormat::Png);
        let picture = super::picture(&bytes, None, ImageFormat::Png).unwrap();
        assert!(picture.width * picture.height <= MAX_PIXELS as usize);
        assert!(picture.width > 6000);
    }

    #[test]
    fn each_page_of_a_tiff_file_is_read() {
        let page = |gray: u8| {
            let image = image::GrayImage::from_pixel(40, 30, image::Luma([gray]));
            encoded(&DynamicImage::ImageLuma8(image), ImageFormat::Tiff)
        };
        // The second file behind the first, with its offsets moved.
        let (mut first, second) = (page(10), page(200));
        assert_eq!(pages(&first, ImageFormat::Tiff).len(), 1);
        let mut encoder = vec![];
        encoder.append(&mut first);
        let pages_of_first = pages(&encoder, ImageFormat::Tiff);
        let picture = picture(&encoder, pages_of_first[0], ImageFormat::Tiff).unwrap();
        assert_eq!(picture.pixels[0], 10);
        let alone = pages(&second, ImageFormat::Tiff);
        let picture = super::picture(&second, alone[0], ImageFormat::Tiff).unwrap();
        assert_eq!(picture.pixels[0], 200);
    }

    #[test]
    fn damaged_pictures_are_errors() {
        let image = DynamicImage::ImageLuma8(image::GrayImage::new(20, 20));
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Tiff] {
            let whole = encoded(&image, format);
            for at in 0..whole.len() {
                let _ = picture(&whole[..at], None, format);
                let mut damaged = whole.clone();
                damaged[at] ^= 0x55;
                for page in pages(&damaged, format) {
                    let _ = picture(&damaged, page, format);
                }
            }
        }
        let error = extract(b"no picture", "a.png", &PdfReader::PDF_EXTRACT).unwrap_err();
        assert!(error.message.starts_with("the picture is malformed"));
    }
}
