-- What is the mean discount of frequent ranges of quantities, or else the mean price paid?
WITH ranges AS (
  SELECT
    (ss_quantity - 1) DIV 20 AS number,
    count(*) AS sales,
    avg(ss_ext_discount_amt) AS discount,
    avg(ss_net_paid) AS paid
  FROM store_sales
  WHERE ss_quantity BETWEEN 1 AND 100
  GROUP BY (ss_quantity - 1) DIV 20
)
SELECT
  20 * number + 1 AS lowest,
  20 * number + 20 AS highest,
  sales,
  CASE WHEN sales > (SELECT avg(sales) FROM ranges) THEN discount ELSE paid END AS mean
FROM ranges
ORDER BY lowest
