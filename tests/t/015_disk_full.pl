# The disk is full: the run fails with an error, no document is stored partly, and the next sync
# completes once there is space.
#
# Creating a full file system needs root. The test uses a library that is loaded before libc. It
# fails with ENOSPC, as the kernel would, when the file of a relation is extended.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagHold ();

my $folder = temp_folder();
my $switch = "$folder/full";
my $source = write_file("$folder/full.c", <<'EOC');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int full(int fd, long long end)
{
	char link[64], path[4096];
	struct stat file;
	const char *only = getenv("RAG_TEST_FULL");
	if (!only || access(only, F_OK) != 0)
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, path, sizeof path - 1);
	if (length < 0)
		return 0;
	path[length] = 0;
	return strstr(path, "/base/") && fstat(fd, &file) == 0 && end > file.st_size;
}
static long long bytes(const struct iovec *iov, int n)
{
	long long sum = 0;
	for (int i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}
#define NEXT(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))
#define NO_SPACE (errno = ENOSPC, -1)
ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { return full(fd,
at + n) ? NO_SPACE : NEXT(pwrite)(fd, b, n, at); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at) { return full(fd,
at + n) ? NO_SPACE : NEXT(pwrite64)(fd, b, n, at); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) { return full(fd,
at + bytes(v, n)) ? NO_SPACE : NEXT(pwritev)(fd, v, n, at); }
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at) { return full(fd,
at + bytes(v, n)) ? NO_SPACE : NEXT(pwritev64)(fd, v, n, at); }
int posix_fallocate(int fd, off_t at, off_t n) { return full(fd,
at + n) ? ENOSPC : NEXT(posix_fallocate)(fd, at, n); }
int posix_fallocate64(int fd, off64_t at, off64_t n) { return full(fd,
at + n) ? ENOSPC : NEXT(posix_fallocate64)(fd, at, n); }
EOC
my $library = "$folder/full.so";
plan(skip_all => 'there is no C compiler')
  unless system("cc -shared -fPIC -o $library $source -ldl 2>/dev/null") == 0;

my $node;
{
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{RAG_TEST_FULL} = $switch;
	$node = rag_node('disk_full', conf => "rag.allowed_private_hosts = '127.0.0.1'");
}
my $witness = witness($node);
my $spec = RagHold::files_between_pages(write_documents(temp_folder(), 40, 8), 'middle');
$node->safe_psql('postgres', "SELECT rag_create_source('docs', 'static', '$spec')");

my $sync = RagHold::start_sync_and_hold($node, 'docs', 21);
write_file($switch, '');
RagHold::release('middle');
my $result = $sync->finish;
error_like(
	$result, '53100',
	'could not extend file .*: No space left on device',
	'Check free disk space',
	'a sync reports that the disk is full');
# if the run could not record its end, another process does once there is space
unlink $switch or die $!;
my $stored = ask($node, "SELECT count(*) FROM rag.documents WHERE status = 'active'");
ok($stored >= 21 && $stored < 43, "$stored documents stored before the disk was full are kept");
like(stored($node), qr/\A0\n0\n$stored\|/, 'the kept documents have all their chunks');
same_cluster($witness, 'the disk is full');
is_deeply([ engines($node, 'ingest') ], [], 'no process of the failed run remains');

sync_ok($node, 'docs', 'the next sync completes when there is space again');
is( ask($node,
		"SELECT string_agg(phase || coalesce(' ' || (errors -> 0 ->> 'sqlstate'), ''), ', '
		ORDER BY run_id) FROM rag.runs"
	),
	'Failed 53100, Completed',
	'the runs record the full disk');
my $state = stored($node);
like($state, qr/\A0\n0\n43\|\w+\n323\|/, 'all documents are stored with all their chunks');
forget_collection($node);
sync_ok($node, 'docs');
is(stored($node), $state, 'the state is that of a sync into an empty collection');

# a run whose end no process can record
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
	RAISE 'could not extend file "base/1/2": No space left on device' USING ERRCODE = 'disk_full';
END$$;
CREATE TRIGGER no_space BEFORE UPDATE ON rag_internal.run FOR EACH ROW
WHEN (NEW.phase IN ('Completed', 'Failed')) EXECUTE FUNCTION no_space();
SQL
error_like(
	run_sql($node, q{SELECT rag_sync('docs')}),
	'53100',
	'could not store how the run of source "docs" ended: could not extend file',
	'The run has ended',
	'a sync ends even if its end cannot be recorded');
$node->safe_psql('postgres', 'DROP TRIGGER no_space ON rag_internal.run');
sync_ok($node, 'docs', 'the next sync succeeds after a run whose end could not be recorded');

# a single document
write_file($switch, '');
my $words = "SELECT string_agg(repeat(md5(i::text), 4), ' ') FROM generate_series(1, 3000) i";
my $large =
  "SELECT success, error FROM rag_add_document(($words), 'large', document_type => 'text')";
error_like(
	run_sql($node, $large),
	'53100', 'could not extend file',
	'disk space', 'rag_add_document reports that the disk is full');
unlink $switch or die $!;
is(ask($node, "SELECT count(*) FROM rag.documents WHERE uri = 'large'"),
	'0', 'rag_add_document stores nothing on a full disk');
same_cluster($witness, 'rag_add_document on a full disk');
$node->stop;
done_testing();
