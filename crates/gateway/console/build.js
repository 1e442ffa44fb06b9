// Writes dist/ from src/. With --check, fails if dist/ is not what src/ gives.
import { build } from 'esbuild';
import { readFileSync, writeFileSync } from 'node:fs';

const licence = `${import.meta.dirname}/node_modules/preact/LICENSE`;
const { outputFiles } = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: { console: 'src/main.jsx' },
  outdir: 'dist',
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  charset: 'utf8',
  legalComments: 'none',
  banner: { js: `/* Preact: ${readFileSync(licence, 'utf8').trim()} */` },
  write: false,
});
let differs = false;
for (const { path, text } of outputFiles) {
  if (!process.argv.includes('--check')) {
    writeFileSync(path, text);
  } else if (readFileSync(path, 'utf8') !== text) {
    console.error(`${path} is not what src/ gives: run npm run build`);
    differs = true;
  }
}
process.exit(differs ? 1 : 0);
