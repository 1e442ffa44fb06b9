//! Recognizes the text of pictures with Tesseract, whose shared library is loaded at run time.
//!
//! The functions are those of `capi.h`, which Tesseract 4 and 5 have. The library is C++ that reads
//! untrusted pixels, so the process that uses it must be expendable. It reads the data of its
//! languages when it is loaded, and opens no file after that.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use libloading::Library;

/// Names of the library, newest first.
const NAMES: [&str; 3] = ["libtesseract.so.5", "libtesseract.so.4", "libtesseract.so"];
/// The mean confidence below which a page may lie on its side or be upside down.
const DOUBTFUL: u8 = 50;

/// `TessPageSegMode`: finds columns and blocks by itself, with and without the orientation.
const AUTO_OSD: c_int = 1;
const AUTO: c_int = 3;

/// A gray picture: a byte for each pixel, rows without gaps, 0 is black.
pub struct Picture {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<u8>,
    /// Pixels per inch.
    pub resolution: u32,
}

/// What a picture says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecognizedText {
    /// Lines, and an empty line between two paragraphs.
    pub text: String,
    /// The mean confidence of words, in percent.
    pub confidence: u8,
}

/// Why a picture was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecognitionError {
    TookTooLong,
    Failed,
}

/// Tesseract with the data of some languages.
pub struct Recognizer {
    functions: Functions,
    /// A `TessBaseAPI`, which one thread may use at a time.
    handle: Mutex<Handle>,
    time: Duration,
}

struct Handle(*mut c_void);

// SAFETY: Tesseract does not depend on the thread that calls it.
unsafe impl Send for Handle {}

/// The functions of the library, which stays loaded as long as they exist.
struct Functions {
    set_mode: unsafe extern "C" fn(*mut c_void, c_int),
    set_image: unsafe extern "C" fn(*mut c_void, *const u8, c_int, c_int, c_int, c_int),
    set_resolution: unsafe extern "C" fn(*mut c_void, c_int),
    recognize: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    text: unsafe extern "C" fn(*mut c_void) -> *mut c_char,
    confidence: unsafe extern "C" fn(*mut c_void) -> c_int,
    clear: unsafe extern "C" fn(*mut c_void),
    delete: unsafe extern "C" fn(*mut c_void),
    delete_text: unsafe extern "C" fn(*const c_char),
    loaded_languages: unsafe extern "C" fn(*mut c_void) -> *mut *mut c_char,
    delete_texts: unsafe extern "C" fn(*mut *mut c_char),
    create_monitor: unsafe extern "C" fn() -> *mut c_void,
    delete_monitor: unsafe extern "C" fn(*mut c_void),
    set_deadline: unsafe extern "C" fn(*mut c_void, c_int),
    _library: Library,
}

impl std::fmt::Debug for Recognizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recognizer")
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

impl Recognizer {
    /// Loads the library, and the data of languages: Tesseract's codes with a plus sign between two
    /// (`eng+deu`). `time` is how long all pictures of a document may take.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub fn load(languages: &str, time: Duration) -> Result<Self, String> {
        let names = CString::new(languages).map_err(|_| "a language has a NUL character")?;
        // SAFETY: loads a library of the system by its name. What it runs on loading is harmless.
        let load = |name: &&str| unsafe { Library::new(*name) }.ok();
        let library = NAMES
            .iter()
            .find_map(load)
            .ok_or("Tesseract is not installed")?;
        // SAFETY: the types are those of `capi.h`. The functions are dropped with the library.
        let (functions, handle) = unsafe {
            let create: unsafe extern "C" fn() -> *mut c_void =
                symbol(&library, c"TessBaseAPICreate")?;
            let init: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int =
                symbol(&library, c"TessBaseAPIInit3")?;
            let functions = Functions {
                set_mode: symbol(&library, c"TessBaseAPISetPageSegMode")?,
                set_image: symbol(&library, c"TessBaseAPISetImage")?,
                set_resolution: symbol(&library, c"TessBaseAPISetSourceResolution")?,
                recognize: symbol(&library, c"TessBaseAPIRecognize")?,
                text: symbol(&library, c"TessBaseAPIGetUTF8Text")?,
                confidence: symbol(&library, c"TessBaseAPIMeanTextConf")?,
                clear: symbol(&library, c"TessBaseAPIClear")?,
                delete: symbol(&library, c"TessBaseAPIDelete")?,
                delete_text: symbol(&library, c"TessDeleteText")?,
                loaded_languages: symbol(&library, c"TessBaseAPIGetLoadedLanguagesAsVector")?,
                delete_texts: symbol(&library, c"TessDeleteTextArray")?,
                create_monitor: symbol(&library, c"TessMonitorCreate")?,
                delete_monitor: symbol(&library, c"TessMonitorDelete")?,
                set_deadline: symbol(&library, c"TessMonitorSetDeadlineMSecs")?,
                _library: library,
            };
            let handle = create();
            if handle.is_null() {
                return Err("Tesseract cannot be started".into());
            }
            if init(handle, ptr::null(), names.as_ptr()) != 0 {
                (functions.delete)(handle);
                return Err(format!("Tesseract lacks the data of {languages}"));
            }
            (functions, handle)
        };
        let recognizer = Self {
            functions,
            handle: Mutex::new(Handle(handle)),
            time,
        };
        // it goes on without the data of some
        let loaded = recognizer.languages();
        let missing = |name: &&str| !loaded.iter().any(|it| it == name);
        match languages.split('+').find(missing) {
            Some(missing) => Err(format!("Tesseract lacks the data of {missing}")),
            None => {
                recognizer.load_orientations();
                Ok(recognizer)
            }
        }
    }

    /// Loads the data of orientations, which Tesseract does when it first needs them. Without the
    /// data, pages are read as if they were upright.
    fn load_orientations(&self) {
        const SIDE: usize = 64;
        let blank = Picture {
            width: SIDE,
            height: SIDE,
            pixels: vec![u8::MAX; SIDE * SIDE],
            resolution: 300,
        };
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + Duration::from_secs(10);
        let _ = self.read_as(&handle, AUTO_OSD, &blank, deadline);
    }

    /// Returns the languages whose data are loaded.
    fn languages(&self) -> Vec<String> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut languages = vec![];
        // SAFETY: an open handle. The list ends with a null pointer, and each name with NUL. They
        // are copied, and then given back.
        unsafe {
            let list = (self.functions.loaded_languages)(handle.0);
            if !list.is_null() {
                let mut next = list;
                while !(*next).is_null() {
                    languages.push(CStr::from_ptr(*next).to_string_lossy().into_owned());
                    next = next.add(1);
                }
                (self.functions.delete_texts)(list);
            }
        }
        languages
    }

    /// Returns how long all pictures of a document may take.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Reads a picture.
    ///
    /// # Errors
    /// It is not read by the deadline, or Tesseract cannot read it.
    pub fn read(
        &self,
        picture: &Picture,
        deadline: Instant,
    ) -> Result<RecognizedText, RecognitionError> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let upright = self.read_as(&handle, AUTO, picture, deadline)?;
        if upright.confidence >= DOUBTFUL {
            return Ok(upright);
        }
        match self.read_as(&handle, AUTO_OSD, picture, deadline) {
            Ok(turned) if turned.confidence > upright.confidence => Ok(turned),
            _ => Ok(upright),
        }
    }

    fn read_as(
        &self,
        handle: &Handle,
        mode: c_int,
        picture: &Picture,
        deadline: Instant,
    ) -> Result<RecognizedText, RecognitionError> {
        let functions = &self.functions;
        let size = |n: usize| c_int::try_from(n).map_err(|_| RecognitionError::Failed);
        let (width, height) = (size(picture.width)?, size(picture.height)?);
        if picture.pixels.len() < picture.width * picture.height || picture.pixels.is_empty() {
            return Err(RecognitionError::Failed);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let left = c_int::try_from(left.as_millis()).unwrap_or(c_int::MAX);
        if left == 0 {
            return Err(RecognitionError::TookTooLong);
        }
        // SAFETY: an open handle that no other thread uses. The library copies the pixels, which
        // have the size that is passed. The monitor lives until it is deleted.
        let is_read = unsafe {
            (functions.set_mode)(handle.0, mode);
            (functions.set_image)(handle.0, picture.pixels.as_ptr(), width, height, 1, width);
            (functions.set_resolution)(handle.0, size(picture.resolution as usize)?);
            let monitor = (functions.create_monitor)();
            (functions.set_deadline)(monitor, left);
            let failed = (functions.recognize)(handle.0, monitor);
            (functions.delete_monitor)(monitor);
            failed == 0
        };
        // what was recognized by the deadline would be a part of the page
        let read = if Instant::now() >= deadline {
            Err(RecognitionError::TookTooLong)
        } else if is_read {
            Ok(self.recognized(handle))
        } else {
            Err(RecognitionError::Failed)
        };
        // SAFETY: an open handle.
        unsafe { (functions.clear)(handle.0) };
        read
    }

    fn recognized(&self, handle: &Handle) -> RecognizedText {
        let functions = &self.functions;
        // SAFETY: an open handle with a picture that was read. The text ends with NUL, is copied,
        // and is then given back.
        let (text, confidence) = unsafe {
            let text = (functions.text)(handle.0);
            let copied = if text.is_null() {
                String::new()
            } else {
                let copied = CStr::from_ptr(text).to_string_lossy().into_owned();
                (functions.delete_text)(text);
                copied
            };
            (copied, (functions.confidence)(handle.0))
        };
        RecognizedText {
            text,
            confidence: confidence.clamp(0, 100) as u8,
        }
    }
}

impl Drop for Recognizer {
    fn drop(&mut self) {
        let handle = self
            .handle
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        // SAFETY: an open handle, which nothing uses after this.
        unsafe { (self.functions.delete)(handle.0) };
    }
}

/// Returns a function of the library.
///
/// # Safety
/// `T` is the type of a pointer to that function, and is not used after the library is dropped.
unsafe fn symbol<T: Copy>(library: &Library, name: &CStr) -> Result<T, String> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<T>(name.to_bytes_with_nul()) };
    found
        .map(|found| *found)
        .map_err(|_| format!("Tesseract's library lacks {}", name.to_string_lossy()))
}
